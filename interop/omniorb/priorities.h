// Real-time CORBA's priorities for an ORB that knows nothing of them, by interceptors; and pools of threads as properties.

#pragma once

#include <string>

#include <omniORB4/CORBA.h>

#include "args.h"

namespace peer {

// No priority.
constexpr int unprioritized = -1;

// Has the ORB tell priorities (`--priority P,P,…`, of a supplier), hear them, and ask for them in the references of this
// program's objects (`--priorities`, of a consumer).
void intercept_priorities(const Args& args);

// Says `model MODEL PRIORITY` if the reference of a proxy names a priority model, as this ORB reads it.
void say_model(CORBA::Object_ptr proxy);

// The priority to be told with the push of event `index`, if the reference it goes to asks for one.
void prioritize(std::uint32_t index);

// Says `echo PRIORITY` if the reply to the last push told one.
void say_echo();

// " priority P" with what was told with the call that this thread serves; nothing if nothing was.
std::string heard();

// `pool:MODEL/PRIORITY/THREADS` and `lanes:MODEL/PRIORITY/PRIORITYxTHREADS+…`, MODEL `propagated` or `declared`.
CORBA::Any pool_of(const std::string& text);
CORBA::Any lanes_of(const std::string& text);

// The same the other way, of the pool among a channel's properties: `pool …` or `lanes …`; nothing without one.
std::string described_pool(const std::string& name, const CORBA::Any& value);

}  // namespace peer
