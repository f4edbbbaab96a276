// An end of the benchmarks that is an omniORB supplier or consumer, with no service between them.
//
// A window of 1 means calls as they are declared, two-way; a window of 0 the same calls without asking for replies. omniORB offers no
// more than one unanswered call to a thread, so there are no other windows. The protocol `GiopBatch` is of sequences.

#include <arpa/inet.h>
#include <sys/socket.h>

#include <ends.h>

#include <omniORB4/CORBA.h>
#include <COS/CosNotifyComm.hh>

#include "unanswered.hh"

namespace {

using CosNotification::EventBatch;
using CosNotification::EventTypeSeq;
using CosNotification::StructuredEvent;

CosNotification::StructuredEvent event_of(std::uint64_t payload_bytes) {
  StructuredEvent event;
  event.header.fixed_header.event_type.domain_name = "Bench";
  event.header.fixed_header.event_type.type_name = "Small";
  event.header.fixed_header.event_name = "";
  const std::vector<std::uint8_t> payload = ends::payload(payload_bytes);
  CORBA::OctetSeq octets(static_cast<CORBA::ULong>(payload.size()));
  octets.length(static_cast<CORBA::ULong>(payload.size()));
  std::memcpy(octets.get_buffer(), payload.data(), payload.size());
  event.remainder_of_body <<= octets;
  return event;
}

// Writes the stamp over the beginning of an event's payload, in place: the Any lends what it holds.
void write_stamp(StructuredEvent& event, const ends::Stamp& stamp) {
  const CORBA::OctetSeq* octets = nullptr;
  event.remainder_of_body >>= octets;
  std::memcpy(const_cast<CORBA::OctetSeq*>(octets)->get_buffer(), &stamp, sizeof stamp);
}

// One event a call.
template <class Consumer>
void push_singly(const Consumer& to, std::uint64_t payload_bytes) {
  StructuredEvent event = event_of(payload_bytes);
  ends::answer("\"Ready\"");
  ends::obey_send(
      [&](const ends::Stamp& stamp) {
        write_stamp(event, stamp);
        to->push_structured_event(event);
      },
      [] {});
}

// As many events a call as are asked for, or fewer before a pause.
template <class Consumer>
void push_in_sequences(const Consumer& to, std::uint64_t payload_bytes, std::uint64_t events) {
  EventBatch batch;
  batch.length(static_cast<CORBA::ULong>(events));
  for (CORBA::ULong i = 0; i < batch.length(); ++i) batch[i] = event_of(payload_bytes);
  CORBA::ULong filled = 0;
  const auto leave = [&] {
    if (filled == 0) return;
    if (filled == batch.length()) {
      to->push_structured_events(batch);
    } else {
      const EventBatch part(batch.length(), filled, batch.get_buffer(), false);
      to->push_structured_events(part);
    }
    filled = 0;
  };
  ends::answer("\"Ready\"");
  ends::obey_send(
      [&](const ends::Stamp& stamp) {
        write_stamp(batch[filled], stamp);
        if (++filled == batch.length()) leave();
      },
      leave);
}

void publish(CORBA::ORB_ptr orb, const ends::Order& order) {
  const std::string url = "corbaloc::1.2@" + order.text("address") + "/" + order.octets("target");
  const CORBA::Object_var object = orb->string_to_object(url.c_str());
  const std::uint64_t payload = order.number("payload_bytes"), window = order.number("window");
  const std::uint64_t events = order.has("GiopBatch") ? order.number("GiopBatch") : 0;
  if (window > 1) throw ends::Usage{"omniORB has one unanswered call at most"};
  // Connects.
  if (object->_non_existent()) throw ends::Usage{"there is no " + url};
  const unanswered::Consumer_var one_way = unanswered::Consumer::_unchecked_narrow(object);
  const auto singly = CosNotifyComm::StructuredPushConsumer_var(CosNotifyComm::StructuredPushConsumer::_unchecked_narrow(object));
  const auto sequences = CosNotifyComm::SequencePushConsumer_var(CosNotifyComm::SequencePushConsumer::_unchecked_narrow(object));
  if (window == 0 && events == 0) return push_singly(one_way, payload);
  if (window == 0) return push_in_sequences(one_way, payload, events);
  if (events == 0) return push_singly(singly, payload);
  push_in_sequences(sequences, payload, events);
}

// What both kinds of consumer have in common.
class Consumer {
public:
  Consumer(ends::Recorder& recorder, std::size_t number) : recorder_(recorder), number_(number) {}
  void enter(const StructuredEvent& event, std::uint64_t now) const {
    const CORBA::OctetSeq* payload = nullptr;
    if (!(event.remainder_of_body >>= payload) || payload->length() < sizeof(ends::Stamp)) return;
    ends::Stamp stamp{};
    std::memcpy(&stamp, payload->get_buffer(), sizeof stamp);
    recorder_.enter(number_, stamp, now);
  }

private:
  ends::Recorder& recorder_;
  std::size_t number_;
};

class Structured : public POA_CosNotifyComm::StructuredPushConsumer {
public:
  explicit Structured(const Consumer& consumer) : consumer_(consumer) {}
  void push_structured_event(const StructuredEvent& event) override { consumer_.enter(event, ends::now_ns()); }
  void disconnect_structured_push_consumer() override {}
  void offer_change(const EventTypeSeq&, const EventTypeSeq&) override {}

private:
  Consumer consumer_;
};

class Sequence : public POA_CosNotifyComm::SequencePushConsumer {
public:
  explicit Sequence(const Consumer& consumer) : consumer_(consumer) {}
  void push_structured_events(const EventBatch& batch) override {
    const std::uint64_t now = ends::now_ns();
    for (CORBA::ULong i = 0; i < batch.length(); ++i) consumer_.enter(batch[i], now);
  }
  void disconnect_sequence_push_consumer() override {}
  void offer_change(const EventTypeSeq&, const EventTypeSeq&) override {}

private:
  Consumer consumer_;
};

// Where this process listens: it has one socket that does.
std::string listening() {
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t length = sizeof listens;
    sockaddr_in address{};
    socklen_t address_length = sizeof address;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens == 1 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &address_length) == 0 && address.sin_family == AF_INET) {
      return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    }
  }
  throw ends::Usage{"no socket listens on loopback"};
}

void subscribe(CORBA::ORB_ptr orb, const ends::Order& order) {
  // Its objects have their ids for object keys.
  const CORBA::Object_var object = orb->resolve_initial_references("omniINSPOA");
  const PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
  const std::vector<std::string> targets = order.lists("targets");
  ends::Recorder recorder(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const PortableServer::ObjectId_var id = PortableServer::string_to_ObjectId(targets[i].c_str());
    PortableServer::ServantBase* servant = nullptr;
    if (order.has("GiopBatch")) {
      servant = new Sequence(Consumer(recorder, i));
    } else {
      servant = new Structured(Consumer(recorder, i));
    }
    poa->activate_object_with_id(id, servant);
    servant->_remove_ref();
  }
  const PortableServer::POAManager_var manager = poa->the_POAManager();
  manager->activate();
  ends::answer("{\"Listening\":\"" + listening() + "\"}");
  recorder.obey();
}

}  // namespace

int main(int count, char** words) {
  try {
    const CORBA::ORB_var orb = CORBA::ORB_init(count, words);
    const int status = ends::run([&](const ends::Order& order) { publish(orb, order); },
                                 [&](const ends::Order& order) { subscribe(orb, order); });
    orb->destroy();
    return status;
  } catch (const CORBA::Exception& exception) {
    std::cerr << exception._rep_id() << std::endl;
    return 1;
  }
}
