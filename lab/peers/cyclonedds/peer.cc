// An end of the benchmarks that speaks DDS: a writer, or any number of readers, of Cyclone DDS.
//
// `peer --domain N --consumers N [--batch 0|1]`. Reliable, keep-all, volatile: nothing is lost, and a writer waits for readers that
// lag, as CORBA's suppliers do. Readers are told of data by a listener, which is called on the receiving thread: that is what the
// project's own benchmark, ddsperf, does where nothing else is asked for, and the fastest way. With `--batch 1` small samples are put into one
// packet (`dds_write_set_batch`), as ddsperf does when it publishes as fast as it can. A writer never waits for the acknowledgement of a
// sample: readers send those at a heartbeat's leisure, and `dds_wait_for_acks` behind each sample lets 11 samples a second through.

#include "dds/dds.h"

#include <ends.h>

extern "C" {
#include "bench.h"
}

namespace {

// Samples that are taken at once.
constexpr int taken_max = 256;

int good(dds_return_t result, const char* doing) {
  if (result < 0) throw ends::Usage{std::string(doing) + ": " + dds_strretcode(-result)};
  return result;
}

struct Settings {
  dds_domainid_t domain = 0;
  std::uint32_t consumers = 1;
  bool batch = false;
};

struct Topic {
  dds_entity_t participant;
  dds_entity_t topic;
  dds_qos_t* qos;
};

Topic join(const Settings& settings, const std::string& name) {
  Topic joined{};
  joined.participant = good(dds_create_participant(settings.domain, nullptr, nullptr), "creating a participant");
  // It concerns the writers that are made from now on, in domains that are there.
  dds_write_set_batch(settings.batch);
  joined.qos = dds_create_qos();
  dds_qset_reliability(joined.qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(60));
  dds_qset_history(joined.qos, DDS_HISTORY_KEEP_ALL, 0);
  dds_qset_durability(joined.qos, DDS_DURABILITY_VOLATILE);
  joined.topic =
      good(dds_create_topic(joined.participant, &bench_Event_desc, name.c_str(), joined.qos, nullptr), "creating a topic");
  return joined;
}

void publish(const Settings& settings, const ends::Order& order) {
  const Topic topic = join(settings, order.octets("target"));
  const dds_entity_t writer = good(dds_create_writer(topic.participant, topic.topic, topic.qos, nullptr), "creating a writer");
  const dds_entity_t waiting = good(dds_create_waitset(topic.participant), "creating a waitset");
  good(dds_set_status_mask(writer, DDS_PUBLICATION_MATCHED_STATUS), "asking for matches");
  good(dds_waitset_attach(waiting, writer, 0), "waiting for matches");
  dds_publication_matched_status_t matched{};
  for (;;) {
    good(dds_get_publication_matched_status(writer, &matched), "looking for matches");
    if (matched.current_count >= settings.consumers) break;
    if (good(dds_waitset_wait(waiting, nullptr, 0, DDS_SECS(20)), "waiting for matches") == 0) {
      throw ends::Usage{"only " + std::to_string(matched.current_count) + " readers have come within 20 s"};
    }
  }
  std::vector<std::uint8_t> payload = ends::payload(order.number("payload_bytes"));
  bench_Event event{};
  event.payload._maximum = event.payload._length = static_cast<std::uint32_t>(payload.size());
  event.payload._buffer = payload.data();
  event.payload._release = false;
  ends::answer("\"Ready\"");
  ends::obey_send(
      [&](const ends::Stamp& stamp) {
        std::memcpy(payload.data(), &stamp, sizeof stamp);
        good(dds_write(writer, &event), "writing");
      },
      [&] {
        if (settings.batch) dds_write_flush(writer);
      });
  dds_delete(topic.participant);
}

// What a listener is given.
struct Consumer {
  ends::Recorder* recorder;
  std::size_t number;
};

void arrived(dds_entity_t reader, void* of) {
  const Consumer& consumer = *static_cast<const Consumer*>(of);
  void* samples[taken_max] = {};
  dds_sample_info_t infos[taken_max];
  const int count = dds_take(reader, samples, infos, taken_max, taken_max);
  const std::uint64_t now = ends::now_ns();
  for (int i = 0; i < count; ++i) {
    if (!infos[i].valid_data) continue;
    const auto* event = static_cast<const bench_Event*>(samples[i]);
    if (event->payload._length < sizeof(ends::Stamp)) continue;
    ends::Stamp stamp{};
    std::memcpy(&stamp, event->payload._buffer, sizeof stamp);
    consumer.recorder->enter(consumer.number, stamp, now);
  }
  if (count > 0) dds_return_loan(reader, samples, count);
}

void subscribe(const Settings& settings, const ends::Order& order) {
  const std::vector<std::string> targets = order.lists("targets");
  ends::Recorder recorder(targets.size());
  std::vector<Consumer> consumers;
  for (std::size_t i = 0; i < targets.size(); ++i) consumers.push_back({&recorder, i});
  // All consumers of a publisher read the same topic.
  if (targets.empty()) order.refuse();
  const Topic topic = join(settings, targets.front());
  for (Consumer& consumer : consumers) {
    dds_listener_t* listener = dds_create_listener(&consumer);
    dds_lset_data_available(listener, arrived);
    good(dds_create_reader(topic.participant, topic.topic, topic.qos, listener), "creating a reader");
    dds_delete_listener(listener);
  }
  ends::answer("\"Ready\"");
  recorder.obey();
  dds_delete(topic.participant);
}

}  // namespace

int main(int count, char** words) {
  Settings settings;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i];
    const auto number = static_cast<std::uint32_t>(std::strtoul(words[i + 1], nullptr, 10));
    if (name == "--domain") settings.domain = number;
    if (name == "--consumers") settings.consumers = number;
    if (name == "--batch") settings.batch = number != 0;
  }
  return ends::run([&](const ends::Order& order) { publish(settings, order); },
                   [&](const ends::Order& order) { subscribe(settings, order); });
}
