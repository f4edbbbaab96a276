#include "commands.h"
namespace peer { int naming(const Args&) { return 2; } }
