#include "answers.h"

namespace peer {

namespace {

const char* const kCodes[] = {"UNSUPPORTED_PROPERTY",
                              "UNAVAILABLE_PROPERTY",
                              "UNSUPPORTED_VALUE",
                              "UNAVAILABLE_VALUE",
                              "BAD_PROPERTY",
                              "BAD_TYPE",
                              "BAD_VALUE"};

}  // namespace

std::string text_of(const CORBA::Any& any) {
  CORBA::Short s = 0;
  CORBA::Long l = 0;
  CORBA::ULong ul = 0;
  CORBA::UShort us = 0;
  CORBA::ULongLong ull = 0;
  CORBA::Boolean b = false;
  const char* str = nullptr;
  if (any >>= s) return "short:" + std::to_string(s);
  if (any >>= us) return "ushort:" + std::to_string(us);
  if (any >>= l) return "long:" + std::to_string(l);
  if (any >>= ul) return "ulong:" + std::to_string(ul);
  if (any >>= ull) return "time:" + std::to_string(ull);
  if (any >>= CORBA::Any::to_boolean(b)) return std::string("boolean:") + (b ? "true" : "false");
  if (any >>= str) return std::string("string:") + str;
  const CORBA::TypeCode_var type = any.type();
  return type->kind() == CORBA::tk_null ? "null" : "kind:" + std::to_string(type->kind());
}

std::string text_of(const CN::PropertySeq& properties) {
  std::vector<std::string> all;
  for (CORBA::ULong i = 0; i < properties.length(); ++i)
    all.push_back(std::string(properties[i].name) + "=" + text_of(properties[i].value));
  std::sort(all.begin(), all.end());
  std::string line;
  for (const std::string& one : all) line += (line.empty() ? "" : " ") + one;
  return line;
}

std::string text_of(const CN::NamedPropertyRangeSeq& ranges) {
  std::vector<std::string> all;
  for (CORBA::ULong i = 0; i < ranges.length(); ++i)
    all.push_back(std::string(ranges[i].name) + "=" + text_of(ranges[i].range.low_val) + ".." +
                  text_of(ranges[i].range.high_val));
  std::sort(all.begin(), all.end());
  std::string line;
  for (const std::string& one : all) line += (line.empty() ? "" : " ") + one;
  return line;
}

std::string text_of(const CN::PropertyErrorSeq& errors) {
  std::string line;
  for (CORBA::ULong i = 0; i < errors.length(); ++i)
    line += std::string(i == 0 ? "" : ", ") + kCodes[errors[i].code] + " " + errors[i].name.in() + " " +
            text_of(errors[i].available_range.low_val) + ".." + text_of(errors[i].available_range.high_val);
  return line;
}

std::string same(CORBA::Object_ptr one, CORBA::Object_ptr other) {
  return !CORBA::is_nil(one) && one->_is_equivalent(other) ? "same" : "different";
}

std::string yes_no(bool yes) { return yes ? "yes" : "no"; }

void attempt(const std::string& name, const std::function<std::string()>& call) {
  try {
    say(name + ": " + call());
  } catch (const CN::UnsupportedQoS& raised) {
    say(name + ": UnsupportedQoS " + text_of(raised.qos_err));
  } catch (const CN::UnsupportedAdmin& raised) {
    say(name + ": UnsupportedAdmin " + text_of(raised.admin_err));
  } catch (const CNA::AdminLimitExceeded& raised) {
    say(name + ": AdminLimitExceeded " + raised.admin_property_err.name.in() + "=" +
        text_of(raised.admin_property_err.value));
  } catch (const CORBA::SystemException& raised) {
    // Minor codes may be the ORB's own; the name is what programs act on.
    say(name + ": " + raised._name());
  } catch (const CORBA::Exception& raised) {
    say(name + ": " + raised._rep_id());
  }
}

CN::EventTypeSeq types(const std::pair<const char*, const char*>& one) {
  CN::EventTypeSeq made;
  made.length(1);
  made[0].domain_name = one.first;
  made[0].type_name = one.second;
  return made;
}

std::string text_of_types(const CN::EventTypeSeq& all) {
  std::string line = "[";
  for (CORBA::ULong i = 0; i < all.length(); ++i)
    line += (i == 0 ? "" : " ") + std::string(all[i].domain_name) + ":" + all[i].type_name.in();
  return line + "]";
}

std::string proxy_text(CNA::ProxyID id, CNA::ProxyType type) {
  static const char* const names[] = {"PUSH_ANY",      "PULL_ANY",      "PUSH_STRUCTURED", "PULL_STRUCTURED",
                                      "PUSH_SEQUENCE", "PULL_SEQUENCE", "PUSH_TYPED",      "PULL_TYPED"};
  return std::to_string(id) + " " + names[type];
}

}  // namespace peer
