#include "args.h"

#include <iostream>
#include <mutex>

namespace peer {

Args::Args(const std::vector<std::string>& words) {
  if (words.empty()) throw Usage{"a sub-command is missing"};
  command_ = words[0];
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.rfind("--", 0) != 0) throw Usage{"not an option: " + word};
    const std::string name = word.substr(2);
    // A word that does not look like an option is this one's value; without one it is a flag.
    if (i + 1 < words.size() && words[i + 1].rfind("--", 0) != 0) {
      options_[name].push_back(words[++i]);
    } else {
      options_[name].push_back("");
    }
  }
}

bool Args::has(const std::string& name) const { return options_.count(name) != 0; }

std::string Args::text(const std::string& name, const std::string& otherwise) const {
  const auto found = options_.find(name);
  return found == options_.end() ? otherwise : found->second.back();
}

std::uint64_t Args::number(const std::string& name, std::uint64_t otherwise) const {
  const auto found = options_.find(name);
  if (found == options_.end()) return otherwise;
  try {
    return std::stoull(found->second.back());
  } catch (const std::exception&) {
    throw Usage{"--" + name + " wants a number"};
  }
}

std::vector<std::string> Args::all(const std::string& name) const {
  const auto found = options_.find(name);
  return found == options_.end() ? std::vector<std::string>{} : found->second;
}

void say(const std::string& line) {
  static std::mutex one_line_at_a_time;
  const std::lock_guard<std::mutex> held(one_line_at_a_time);
  std::cout << line << '\n' << std::flush;
}

bool hear(std::string& line) { return static_cast<bool>(std::getline(std::cin, line)); }

}  // namespace peer
