// What a tour asks and what it is answered, one line each.

#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <COS/CosNotifyChannelAdmin.hh>

#include "args.h"

namespace peer {

namespace CNA = CosNotifyChannelAdmin;
namespace CN = CosNotification;

std::string text_of(const CORBA::Any& any);
std::string text_of(const CN::PropertySeq& properties);
std::string text_of(const CN::NamedPropertyRangeSeq& ranges);
std::string text_of(const CN::PropertyErrorSeq& errors);
std::string text_of_types(const CN::EventTypeSeq& all);
std::string proxy_text(CNA::ProxyID id, CNA::ProxyType type);
std::string same(CORBA::Object_ptr one, CORBA::Object_ptr other);
std::string yes_no(bool yes);

// A list of one event type.
CN::EventTypeSeq types(const std::pair<const char*, const char*>& one);

template <typename Ids>
std::string ids(const Ids& sequence) {
  std::vector<CORBA::Long> all;
  for (CORBA::ULong i = 0; i < sequence.length(); ++i) all.push_back(sequence[i]);
  std::sort(all.begin(), all.end());
  std::string line = "[";
  for (const CORBA::Long id : all) line += (line.size() == 1 ? "" : " ") + std::to_string(id);
  return line + "]";
}

// Prints what the call answered, or what it raised with what the exception holds.
void attempt(const std::string& name, const std::function<std::string()>& call);

inline void attempt_void(const std::string& name, const std::function<void()>& call) {
  attempt(name, [&call] {
    call();
    return std::string("ok");
  });
}

template <typename T>
CN::QoSProperties one(const char* name, T value) {
  CN::QoSProperties properties;
  properties.length(1);
  properties[0].name = name;
  properties[0].value <<= value;
  return properties;
}

}  // namespace peer
