// One program with sub-commands; the Java one beside it takes the same command line and prints the same lines.

#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>

#include <omniORB4/CORBA.h>

#include "commands.h"
#include "orb.h"

namespace {

const std::map<std::string, std::function<int(const peer::Args&)>>& commands() {
  static const std::map<std::string, std::function<int(const peer::Args&)>> all = {
      {"supplier", peer::supplier},
      {"consumer", peer::consumer},
      {"witness", peer::witness},
      {"call", peer::call},
      {"direct-consumer", peer::direct_consumer},
      {"direct-supplier", peer::direct_supplier},
      {"walk", peer::walk},
      {"filters", peer::filters},
      {"proxies", peer::proxies},
      {"destroy", peer::destroy},
      {"naming", peer::naming},
      {"plan", peer::plan},
      {"alma", peer::alma},
      {"deploy", peer::deploy},
  };
  return all;
}

}  // namespace

int main(int count, char** words) {
  try {
    const peer::Args args(std::vector<std::string>(words + 1, words + count));
    const auto found = commands().find(args.command());
    if (found == commands().end()) throw peer::Usage{"no such sub-command: " + args.command()};
    return found->second(args);
  } catch (const peer::Usage& usage) {
    std::cerr << "peer: " << usage.what << '\n';
    return 2;
  } catch (const CORBA::Exception& raised) {
    peer::say("error " + peer::describe(raised));
    return 1;
  } catch (const std::exception& raised) {
    std::cerr << "peer: " << raised.what() << '\n';
    return 1;
  }
}
