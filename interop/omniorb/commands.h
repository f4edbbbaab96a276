// The sub-commands. Each returns the program's exit status.

#pragma once

#include "args.h"

namespace peer {

int supplier(const Args& args);
int consumer(const Args& args);
int witness(const Args& args);
int call(const Args& args);
int direct_consumer(const Args& args);
int direct_supplier(const Args& args);
int walk(const Args& args);
int filters(const Args& args);
int proxies(const Args& args);
int destroy(const Args& args);
int naming(const Args& args);
int plan(const Args& args);
int alma(const Args& args);
int deploy(const Args& args);

}  // namespace peer
