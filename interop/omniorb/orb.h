// One ORB, started from the common options, and the ways in which a client finds the service.

#pragma once

#include <string>

#include <omniORB4/CORBA.h>
#include <COS/CosEventChannelAdmin.hh>
#include <COS/CosNotifyChannelAdmin.hh>

#include "args.h"
#include "shapes.h"

namespace peer {

class Orb {
public:
  explicit Orb(const Args& args);
  ~Orb();
  Orb(const Orb&) = delete;
  Orb& operator=(const Orb&) = delete;

  CORBA::ORB_ptr get() const { return orb_; }
  const Shaper& shaper() const { return shaper_; }
  CORBA::Object_ptr resolve(const std::string& url) const;
  // Its reference must name the object and no other: each servant is registered under a name of its own.
  CORBA::Object_ptr serve(PortableServer::ServantBase* servant, const std::string& name) const;

private:
  CORBA::ORB_var orb_;
  PortableServer::POA_var poa_;
  Shaper shaper_;
};

// By `--factory URL`, `--initial NAME` or `--naming PATH`.
CosNotifyChannelAdmin::EventChannelFactory_ptr find_factory(const Orb& orb, const Args& args);
// `--channel ID` (default 0) of that factory, or a `new` one, which is announced as `channel ID`.
CosNotifyChannelAdmin::EventChannel_ptr find_channel(const Orb& orb, const Args& args);
// The same seen as the plain Event Service; `--event-channel URL` or `--initial NAME --plain` names it directly.
CosEventChannelAdmin::EventChannel_ptr find_event_channel(const Orb& orb, const Args& args);
// `--qos NAME=TYPE:VALUE`, TYPE one of short, ushort, long, ulong, boolean, string, time.
CosNotification::QoSProperties qos_of(const Args& args, const std::string& option);
// `--add domain:type` and `--remove domain:type`.
CosNotification::EventTypeSeq types_of(const Args& args, const std::string& option);

// "IDL:omg.org/CORBA/TRANSIENT:1.0 minor 0x4f4d0001 completed no", or the repository id of a user exception.
std::string describe(const CORBA::Exception& exception);

}  // namespace peer
