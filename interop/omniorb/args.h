// The command line, read the same way by every sub-command: `--name value`, `--flag`, names may repeat.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace peer {

// Thrown when the command line asks for something that makes no sense; ends the program with status 2.
struct Usage {
  std::string what;
};

class Args {
public:
  // `argv` without the program's name; its first word is the sub-command.
  explicit Args(const std::vector<std::string>& words);

  const std::string& command() const { return command_; }
  bool has(const std::string& name) const;
  // The last value given for `name`, or `otherwise`.
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::uint64_t number(const std::string& name, std::uint64_t otherwise) const;
  // Every value given for `name`, in order.
  std::vector<std::string> all(const std::string& name) const;

private:
  std::string command_;
  std::map<std::string, std::vector<std::string>> options_;
};

// Prints one line to standard output and flushes it. Lines of different threads do not mix.
void say(const std::string& line);

// Reads a line of standard input; false at its end.
bool hear(std::string& line);

}  // namespace peer
