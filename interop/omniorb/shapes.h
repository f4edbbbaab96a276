// What the events carry. `make` fills the value number `index` of a shape from a deterministic generator; `check` draws
// the same numbers again and compares field by field. The Java programs hold the same generator, so the two sides agree
// without having exchanged anything but the event.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <omniORB4/CORBA.h>
#include <COS/CosNotification.hh>

namespace peer {

// How narrow text is held in this program: its ORB's native code set.
enum class Chars { latin1, utf8 };

struct Shaper {
  CORBA::ORB_ptr orb;
  Chars chars;
  // Octets in a `block` and in the payload of a `small`.
  std::uint32_t block_size;
  std::uint32_t payload_size;
  // Where a structured event has the value, and nothing else beside its type {"ALMA", the value's type}: in its `body`, or as its only
  // datum (`data`), which is ALMA's convention. Empty: in the body of an event with properties.
  std::string inside;

  CORBA::Any make(const std::string& shape, std::uint32_t index, std::uint32_t source) const;
  // Empty when all is as `make` would have made it; else what differs.
  std::string check(const std::string& shape, std::uint32_t index, std::uint32_t source, const CORBA::Any& value) const;

  // The value that a structured event has inside, if it has one there.
  const CORBA::Any& value_of(const CosNotification::StructuredEvent& event) const;
  CosNotification::StructuredEvent make_event(const std::string& shape, std::uint32_t index,
                                              std::uint32_t source) const;
  std::string check_event(const std::string& shape, std::uint32_t index, std::uint32_t source,
                          const CosNotification::StructuredEvent& event) const;
};

// The shapes of a scenario, in the order in which events go through them: one name, several joined by commas, or `all`.
std::vector<std::string> shapes_of(const std::string& scenario);

// Source and number of a `small`, whatever they are; false if it is none.
bool identify(const CORBA::Any& value, std::uint32_t& source, std::uint32_t& number);

}  // namespace peer
