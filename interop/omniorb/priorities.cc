#include "priorities.h"

#include <atomic>
#include <sstream>
#include <vector>

#include <omniORB4/internal/giopRope.h>
#include <omniORB4/internal/giopStream.h>
#include <omniORB4/internal/giopStrand.h>
#include <omniORB4/internal/GIOP_C.h>
#include <omniORB4/internal/GIOP_S.h>
#include <omniORB4/omniIOR.h>
#include <omniORB4/omniInterceptors.h>

#include "campanile_test.hh"

using omni::omniInterceptors;

namespace peer {

namespace {

constexpr CORBA::ULong tag_policies = 2;
constexpr CORBA::ULong priority_model_policy = 40;
constexpr CORBA::ULong rt_corba_priority = 10;
constexpr CORBA::ULong client_propagated = 0;

// What pushes are told with, in turn.
std::vector<int> told;
std::atomic<bool> is_asked_for{false};
thread_local int telling = unprioritized;
thread_local int echoed = unprioritized;
thread_local int hearing = unprioritized;

bool is_push(const char* operation) { return std::string(operation).rfind("push", 0) == 0; }

int read_priority(const IOP::ServiceContextList& contexts) {
  for (CORBA::ULong i = 0; i < contexts.length(); ++i) {
    if (contexts[i].context_id != rt_corba_priority) continue;
    cdrEncapsulationStream stream(contexts[i].context_data);
    CORBA::Short priority = unprioritized;
    priority <<= stream;
    return priority;
  }
  return unprioritized;
}

CORBA::Boolean send_request(omniInterceptors::clientSendRequest_T::info_T& info) {
  if (telling == unprioritized || !is_push(info.operation())) return 1;
  cdrEncapsulationStream stream(CORBA::ULong(0), 1);
  static_cast<CORBA::Short>(telling) >>= stream;
  const CORBA::ULong at = info.service_contexts.length();
  info.service_contexts.length(at + 1);
  info.service_contexts[at].context_id = rt_corba_priority;
  stream.setOctetSeq(info.service_contexts[at].context_data);
  return 1;
}

CORBA::Boolean receive_reply(omniInterceptors::clientReceiveReply_T::info_T& info) {
  echoed = read_priority(info.service_contexts);
  return 1;
}

CORBA::Boolean receive_request(omniInterceptors::serverReceiveRequest_T::info_T& info) {
  hearing = read_priority(info.giop_s.service_contexts());
  return 1;
}

template <typename Value>
_CORBA_Unbounded_Sequence_Octet encapsulated(const Value& value) {
  cdrEncapsulationStream stream(CORBA::ULong(0), 1);
  value >>= stream;
  _CORBA_Unbounded_Sequence_Octet octets;
  stream.setOctetSeq(octets);
  return octets;
}

// Has the references of this program's objects ask for priorities.
CORBA::Boolean encode_ior(omniInterceptors::encodeIOR_T::info_T& info) {
  if (!is_asked_for) return 1;
  const auto policy = encapsulated(CampanileTest::PriorityModelValue{client_propagated, 0});
  CampanileTest::PolicyValueSeq policies;
  policies.length(1);
  policies[0].ptype = priority_model_policy;
  policies[0].pvalue.length(policy.length());
  for (CORBA::ULong i = 0; i < policy.length(); ++i) policies[0].pvalue[i] = policy[i];
  const CORBA::ULong at = info.iiop.components.length();
  info.iiop.components.length(at + 1);
  info.iiop.components[at].tag = tag_policies;
  info.iiop.components[at].component_data = encapsulated(policies);
  return 1;
}

bool read_model(CORBA::Object_ptr proxy, CampanileTest::PriorityModelValue& model) {
  const omniIOR_var ior = proxy->_PR_getobj()->_getIOR();
  const IOP::TaggedProfileList& profiles = ior->iopProfiles();
  for (CORBA::ULong p = 0; p < profiles.length(); ++p) {
    if (profiles[p].tag != IOP::TAG_INTERNET_IOP) continue;
    IIOP::ProfileBody body;
    IIOP::unmarshalProfile(profiles[p], body);
    for (CORBA::ULong c = 0; c < body.components.length(); ++c) {
      if (body.components[c].tag != tag_policies) continue;
      cdrEncapsulationStream stream(body.components[c].component_data, 1);
      CampanileTest::PolicyValueSeq policies;
      policies <<= stream;
      for (CORBA::ULong i = 0; i < policies.length(); ++i) {
        if (policies[i].ptype != priority_model_policy) continue;
        _CORBA_Unbounded_Sequence_Octet octets;
        octets.length(policies[i].pvalue.length());
        for (CORBA::ULong at = 0; at < octets.length(); ++at) octets[at] = policies[i].pvalue[at];
        cdrEncapsulationStream inner(octets, 1);
        model <<= inner;
        return true;
      }
    }
  }
  return false;
}

const char* name_of(NotifyExt::PriorityModel model) {
  return model == NotifyExt::CLIENT_PROPAGATED ? "propagated" : "declared";
}

// Takes `propagated/5/` off the front.
void read_head(std::istringstream& text, NotifyExt::PriorityModel& model, CORBA::Short& priority) {
  std::string word;
  std::getline(text, word, '/');
  if (word != "propagated" && word != "declared") throw Usage{"no such priority model: " + word};
  model = word == "propagated" ? NotifyExt::CLIENT_PROPAGATED : NotifyExt::SERVER_DECLARED;
  std::getline(text, word, '/');
  priority = static_cast<CORBA::Short>(std::stol(word));
}

}  // namespace

void intercept_priorities(const Args& args) {
  std::istringstream list(args.text("priority", ""));
  for (std::string word; std::getline(list, word, ',');) told.push_back(std::stoi(word));
  is_asked_for = args.has("priorities");
  if (told.empty() && !is_asked_for) return;
  omniInterceptors* const interceptors = omniORB::getInterceptors();
  interceptors->clientSendRequest.add(send_request);
  interceptors->clientReceiveReply.add(receive_reply);
  interceptors->serverReceiveRequest.add(receive_request);
  interceptors->encodeIOR.add(encode_ior);
}

void say_model(CORBA::Object_ptr proxy) {
  CampanileTest::PriorityModelValue model{};
  if (!read_model(proxy, model)) {
    told.clear();
    return;
  }
  say(std::string("model ") + (model.model == client_propagated ? "propagated" : "declared") + " " +
      std::to_string(model.server_priority));
  // A priority is told only to those that ask for it.
  if (model.model != client_propagated) told.clear();
}

void prioritize(std::uint32_t index) {
  telling = told.empty() ? unprioritized : told[index % told.size()];
  echoed = unprioritized;
}

void say_echo() {
  if (echoed != unprioritized) say("echo " + std::to_string(echoed));
}

std::string heard() { return hearing == unprioritized ? "" : " priority " + std::to_string(hearing); }

CORBA::Any pool_of(const std::string& words) {
  std::istringstream text(words);
  NotifyExt::ThreadPoolParams pool{};
  read_head(text, pool.priority_model, pool.server_priority);
  text >> pool.static_threads;
  pool.default_priority = pool.server_priority;
  pool.allow_request_buffering = true;
  CORBA::Any any;
  any <<= pool;
  return any;
}

CORBA::Any lanes_of(const std::string& words) {
  std::istringstream text(words);
  NotifyExt::ThreadPoolLanesParams pool{};
  read_head(text, pool.priority_model, pool.server_priority);
  for (std::string lane; std::getline(text, lane, '+');) {
    const CORBA::ULong at = pool.lanes.length();
    pool.lanes.length(at + 1);
    pool.lanes[at].priority_model = pool.priority_model;
    pool.lanes[at].server_priority = pool.server_priority;
    pool.lanes[at].lane_priority = static_cast<CORBA::Short>(std::stol(lane));
    pool.lanes[at].static_threads = static_cast<CORBA::ULong>(std::stoul(lane.substr(lane.find('x') + 1)));
    pool.lanes[at].dynamic_threads = 0;
  }
  pool.allow_request_buffering = true;
  CORBA::Any any;
  any <<= pool;
  return any;
}

std::string described_pool(const std::string& name, const CORBA::Any& value) {
  const NotifyExt::ThreadPoolParams* pool = nullptr;
  if (name == "ThreadPool" && (value >>= pool)) {
    return std::string("pool ") + name_of(pool->priority_model) + "/" + std::to_string(pool->server_priority) + "/" +
           std::to_string(pool->static_threads);
  }
  const NotifyExt::ThreadPoolLanesParams* lanes = nullptr;
  if (name == "ThreadPoolLanes" && (value >>= lanes)) {
    std::string text = std::string("lanes ") + name_of(lanes->priority_model) + "/" + std::to_string(lanes->server_priority);
    for (CORBA::ULong i = 0; i < lanes->lanes.length(); ++i) {
      text += (i == 0 ? "/" : "+") + std::to_string(lanes->lanes[i].lane_priority) + "x" +
              std::to_string(lanes->lanes[i].static_threads);
    }
    return text;
  }
  return "";
}

}  // namespace peer
