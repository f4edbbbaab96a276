#include "orb.h"

#include "priorities.h"

#include <cstdio>
#include <cstring>

#include <omniORB4/Naming.hh>

namespace peer {

namespace {

std::vector<std::string> orb_words(const Args& args) {
  std::vector<std::string> words = {"peer"};
  const auto option = [&words](const std::string& name, const std::string& value) {
    words.push_back("-ORB" + name);
    words.push_back(value);
  };
  const std::string endpoint = args.text("endpoint", "127.0.0.1:");
  // "ssl" takes the files from --orb sslCAFile and --orb sslKeyFile.
  option("endPoint", "giop:" + args.text("transport", "tcp") + ":" + endpoint);
  // The first is the profile's address, the others are alternatives to it.
  std::string published;
  for (const std::string& address : args.all("publish")) published += (published.empty() ? "giop:tcp:" : ",giop:tcp:") + address;
  if (!published.empty()) option("endPointPublish", published);
  if (args.has("bidirectional")) {
    option("offerBiDirectionalGIOP", "1");
    option("clientTransportRule", "* bidir,tcp,ssl");
  }
  if (args.has("giop")) option("maxGIOPVersion", args.text("giop", ""));
  if (args.text("chars", "latin-1") == "utf-8") option("nativeCharCodeSet", "UTF-8");
  for (const std::string& initial : args.all("initref")) option("InitRef", initial);
  for (const std::string& other : args.all("orb")) {
    const std::size_t equals = other.find('=');
    if (equals == std::string::npos) throw Usage{"--orb wants NAME=VALUE"};
    option(other.substr(0, equals), other.substr(equals + 1));
  }
  return words;
}

CORBA::ORB_ptr start(const Args& args) {
  std::vector<std::string> words = orb_words(args);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  return CORBA::ORB_init(count, pointers.data());
}

CORBA::Any value_of(const std::string& type, const std::string& text) {
  CORBA::Any any;
  if (type == "short")
    any <<= static_cast<CORBA::Short>(std::stol(text));
  else if (type == "ushort")
    any <<= static_cast<CORBA::UShort>(std::stoul(text));
  else if (type == "long")
    any <<= static_cast<CORBA::Long>(std::stol(text));
  else if (type == "ulong")
    any <<= static_cast<CORBA::ULong>(std::stoul(text));
  else if (type == "time")
    any <<= static_cast<CORBA::ULongLong>(std::stoull(text));
  else if (type == "boolean")
    any <<= CORBA::Any::from_boolean(text == "true");
  else if (type == "string")
    any <<= text.c_str();
  else if (type == "pool")
    any = pool_of(text);
  else if (type == "lanes")
    any = lanes_of(text);
  else
    throw Usage{"no such type of a property: " + type};
  return any;
}

}  // namespace

Orb::Orb(const Args& args)
    : orb_(start(args)),
      shaper_{orb_, args.text("chars", "latin-1") == "utf-8" ? Chars::utf8 : Chars::latin1,
              static_cast<std::uint32_t>(args.number("block", 1 << 20)),
              static_cast<std::uint32_t>(args.number("payload", 128)), args.text("inside", "")} {
  // Before there is any reference.
  intercept_priorities(args);
  CORBA::Object_var object = orb_->resolve_initial_references("RootPOA");
  const PortableServer::POA_var root = PortableServer::POA::_narrow(object);
  const PortableServer::POAManager_var manager = root->the_POAManager();
  manager->activate();
  CORBA::PolicyList policies;
  // With --persistent its references are the same when it is started again, if its end point is.
  const auto add = [&policies](CORBA::Policy_ptr policy) {
    policies.length(policies.length() + 1);
    policies[policies.length() - 1] = policy;
  };
  add(root->create_id_assignment_policy(PortableServer::USER_ID));
  if (args.has("persistent")) add(root->create_lifespan_policy(PortableServer::PERSISTENT));
  if (args.has("bidirectional")) {
    CORBA::Any both;
    both <<= BiDirPolicy::BOTH;
    add(orb_->create_policy(BiDirPolicy::BIDIRECTIONAL_POLICY_TYPE, both));
  }
  poa_ = root->create_POA("peer", manager, policies);
}

Orb::~Orb() {
  try {
    orb_->destroy();
  } catch (const CORBA::Exception&) {
    // The program is ending; nobody is left to be told.
  }
}

CORBA::Object_ptr Orb::resolve(const std::string& url) const { return orb_->string_to_object(url.c_str()); }

CORBA::Object_ptr Orb::serve(PortableServer::ServantBase* servant, const std::string& name) const {
  const PortableServer::ObjectId_var id = PortableServer::string_to_ObjectId(name.c_str());
  poa_->activate_object_with_id(id, servant);
  servant->_remove_ref();
  return poa_->id_to_reference(id);
}

CosNotifyChannelAdmin::EventChannelFactory_ptr find_factory(const Orb& orb, const Args& args) {
  CORBA::Object_var object;
  if (args.has("factory")) {
    object = orb.resolve(args.text("factory", ""));
  } else if (args.has("initial")) {
    object = orb.get()->resolve_initial_references(args.text("initial", "").c_str());
  } else if (args.has("naming")) {
    const CORBA::Object_var root = orb.get()->resolve_initial_references("NameService");
    const CosNaming::NamingContextExt_var context = CosNaming::NamingContextExt::_narrow(root);
    object = context->resolve_str(args.text("naming", "").c_str());
  } else {
    throw Usage{"--factory, --initial or --naming is missing"};
  }
  const auto factory = CosNotifyChannelAdmin::EventChannelFactory::_narrow(object);
  if (CORBA::is_nil(factory)) throw Usage{"what was found is no EventChannelFactory"};
  return factory;
}

CosNotifyChannelAdmin::EventChannel_ptr find_channel(const Orb& orb, const Args& args) {
  const CosNotifyChannelAdmin::EventChannelFactory_var factory = find_factory(orb, args);
  const std::string which = args.text("channel", "0");
  if (which != "new") return factory->get_event_channel(static_cast<CORBA::Long>(std::stol(which)));
  CosNotifyChannelAdmin::ChannelID id = 0;
  CosNotifyChannelAdmin::EventChannel_var channel =
      factory->create_channel(qos_of(args, "channel-qos"), qos_of(args, "channel-admin"), id);
  CosNotification::QoSProperties_var qos = channel->get_qos();
  for (CORBA::ULong i = 0; i < qos->length(); ++i) {
    const std::string pool = described_pool(qos[i].name.in(), qos[i].value);
    if (!pool.empty()) say(pool);
  }
  say("channel " + std::to_string(id));
  return channel._retn();
}

CosEventChannelAdmin::EventChannel_ptr find_event_channel(const Orb& orb, const Args& args) {
  CORBA::Object_var object;
  if (args.has("event-channel")) {
    object = orb.resolve(args.text("event-channel", ""));
  } else if (args.has("plain")) {
    object = orb.get()->resolve_initial_references(args.text("initial", "EventService").c_str());
  } else {
    object = find_channel(orb, args);
  }
  const auto channel = CosEventChannelAdmin::EventChannel::_narrow(object);
  if (CORBA::is_nil(channel)) throw Usage{"what was found is no CosEventChannelAdmin::EventChannel"};
  return channel;
}

CosNotification::QoSProperties qos_of(const Args& args, const std::string& option) {
  CosNotification::QoSProperties properties;
  for (const std::string& word : args.all(option)) {
    const std::size_t equals = word.find('=');
    const std::size_t colon = word.find(':', equals);
    if (equals == std::string::npos || colon == std::string::npos) throw Usage{"not NAME=TYPE:VALUE: " + word};
    const CORBA::ULong at = properties.length();
    properties.length(at + 1);
    properties[at].name = word.substr(0, equals).c_str();
    properties[at].value = value_of(word.substr(equals + 1, colon - equals - 1), word.substr(colon + 1));
  }
  return properties;
}

CosNotification::EventTypeSeq types_of(const Args& args, const std::string& option) {
  CosNotification::EventTypeSeq types;
  for (const std::string& word : args.all(option)) {
    const std::size_t colon = word.find(':');
    if (colon == std::string::npos) throw Usage{"not DOMAIN:TYPE: " + word};
    const CORBA::ULong at = types.length();
    types.length(at + 1);
    types[at].domain_name = word.substr(0, colon).c_str();
    types[at].type_name = word.substr(colon + 1).c_str();
  }
  return types;
}

std::string describe(const CORBA::Exception& exception) {
  std::string text = exception._rep_id();
  const auto* system = CORBA::SystemException::_downcast(&exception);
  if (system == nullptr) return text;
  char minor[16];
  std::snprintf(minor, sizeof minor, "0x%08x", static_cast<unsigned>(system->minor()));
  const char* completed = system->completed() == CORBA::COMPLETED_YES  ? "yes"
                          : system->completed() == CORBA::COMPLETED_NO ? "no"
                                                                       : "maybe";
  return text + " minor " + minor + " completed " + completed;
}

}  // namespace peer
