// `witness` and `call`: an object of our own and a client that makes one of every kind of call to it. Golden bytes are
// recorded between the two.

#include "commands.h"

#include <cstring>
#include <cwchar>

#include "campanile_test.hh"
#include "orb.h"

namespace peer {

namespace {

class WitnessServant : public POA_CampanileTest::Witness {
public:
  // Where calls with a value of 77 are forwarded to.
  CORBA::Object_var elsewhere;

  CORBA::Long twice(CORBA::Long value) override {
    if (value == 77 && !CORBA::is_nil(elsewhere))
      throw omniORB::LOCATION_FORWARD(CORBA::Object::_duplicate(elsewhere), false);
    if (value < 0) throw CampanileTest::Witness::Refused("negative", value, CampanileTest::violet);
    if (value > 1000) throw CORBA::BAD_PARAM(42, CORBA::COMPLETED_NO);
    return 2 * value;
  }
  void note(const char* text) override { say(std::string("note ") + text); }
  void echo_block(const CampanileTest::OctetSeq& data, CampanileTest::OctetSeq_out same) override {
    same = new CampanileTest::OctetSeq(data);
  }
  char* echo_text(const char* narrow, const CORBA::WChar* wide, CORBA::WString_out same) override {
    same = CORBA::wstring_dup(wide);
    return CORBA::string_dup(narrow);
  }
  CORBA::Long level() override { return level_; }
  void level(CORBA::Long value) override { level_ = value; }

private:
  CORBA::Long level_ = 7;
};

// Says what a call ended in; a call that is meant to be refused is one like any other. `--only` picks one.
template <typename Call>
void attempt(const Args& args, const std::string& name, Call call) {
  if (args.text("only", name) != name) return;
  try {
    say(name + " " + call());
  } catch (const CampanileTest::Witness::Refused& refused) {
    say(name + " refused " + refused.why.in() + " " + std::to_string(refused.code) + " " +
        std::to_string(refused.shade));
  } catch (const CORBA::Exception& raised) {
    say(name + " " + describe(raised));
  }
}

}  // namespace

int witness(const Args& args) {
  const Orb orb(args);
  WitnessServant* servant = new WitnessServant;
  servant->elsewhere = orb.serve(new WitnessServant, "elsewhere");
  const CORBA::Object_var self = orb.serve(servant, "witness");
  const CORBA::String_var ior = orb.get()->object_to_string(self);
  say(std::string("ior ") + ior.in());
  say("ready");
  std::string line;
  while (hear(line) && line != "quit") {
  }
  // Says CloseConnection to whoever is still connected.
  orb.get()->shutdown(true);
  return 0;
}

int call(const Args& args) {
  const Orb orb(args);
  const CORBA::Object_var object = orb.resolve(args.text("witness", ""));
  const CampanileTest::Witness_var to = CampanileTest::Witness::_unchecked_narrow(object);
  attempt(args, "non_existent", [&] { return std::string(to->_non_existent() ? "true" : "false"); });
  attempt(args, "is_a",
          [&] { return std::string(to->_is_a("IDL:campanile.org/CampanileTest/Other:1.0") ? "true" : "false"); });
  attempt(args, "twice", [&] { return std::to_string(to->twice(21)); });
  attempt(args, "refused", [&] { return std::to_string(to->twice(-5)); });
  attempt(args, "bad_param", [&] { return std::to_string(to->twice(2000)); });
  attempt(args, "forwarded", [&] { return std::to_string(to->twice(77)); });
  attempt(args, "set_level", [&] {
    to->level(11);
    return std::string("ok");
  });
  attempt(args, "get_level", [&] { return std::to_string(to->level()); });
  attempt(args, "note", [&] {
    to->note("one way");
    return std::string("ok");
  });
  if (args.text("giop", "1.2") != "1.0") {
    // GIOP 1.0 has no wide strings.
    attempt(args, "echo_text", [&] {
      const wchar_t wide[] = {0x61, 0xe9, 0x20ac, 0xd834, 0xdd1e, 0};
      CORBA::WString_var same;
      const CORBA::String_var narrow = to->echo_text("caf\xe9", wide, same);
      return std::string(std::strcmp(narrow, "caf\xe9") == 0 && std::wcscmp(same, wide) == 0 ? "same" : "different");
    });
  }
  attempt(args, "echo_block", [&] {
    CampanileTest::OctetSeq data;
    data.length(static_cast<CORBA::ULong>(args.number("block", 20000)));
    for (CORBA::ULong i = 0; i < data.length(); ++i) data[i] = static_cast<CORBA::Octet>(i);
    CampanileTest::OctetSeq_var same;
    to->echo_block(data, same);
    return std::string(same->length() == data.length() &&
                               std::memcmp(same->get_buffer(), data.get_buffer(), data.length()) == 0
                           ? "same"
                           : "different");
  });
  say("done");
  if (args.has("stay")) {
    std::string line;
    while (hear(line) && line != "quit") {
    }
  }
  return 0;
}

}  // namespace peer
