// A program of Fast DDS (Debian's): it writes or reads a topic with the policies that it is told, until its input ends.
//
//   peer DOMAIN PARTITION TOPIC writer|reader [best-effort] [transient-local]
//
// Debian's version writes XCDR1 alone, and says nothing of it, whatever its policy has.
//
// It says `ready`, and a reader `got SPEED` for each sample. A writer writes as many samples as each line of its input says, speeds from 1 on.

#include <fastcdr/Cdr.h>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastrtps/utils/IPLocator.h>

#include <iostream>
#include <set>
#include <string>

using namespace eprosima::fastdds::dds;
using namespace eprosima::fastdds::rtps;
namespace rtps = eprosima::fastrtps::rtps;

struct Wind {
    std::string station;
    double speed = 0;
};

// module demo { struct Wind { string station; double speed; }; };
class WindType : public TopicDataType {
public:
    WindType() {
        setName("demo::Wind");
        m_typeSize = 256;
    }

    bool serialize(void *data, rtps::SerializedPayload_t *payload) override {
        auto wind = static_cast<Wind *>(data);
        eprosima::fastcdr::FastBuffer buffer(reinterpret_cast<char *>(payload->data), payload->max_size);
        eprosima::fastcdr::Cdr cdr(buffer, eprosima::fastcdr::Cdr::DEFAULT_ENDIAN, eprosima::fastcdr::Cdr::DDS_CDR);
        payload->encapsulation = cdr.endianness() == eprosima::fastcdr::Cdr::BIG_ENDIANNESS ? CDR_BE : CDR_LE;
        cdr.serialize_encapsulation();
        cdr << wind->station << wind->speed;
        payload->length = static_cast<uint32_t>(cdr.getSerializedDataLength());
        return true;
    }

    bool deserialize(rtps::SerializedPayload_t *payload, void *data) override {
        auto wind = static_cast<Wind *>(data);
        eprosima::fastcdr::FastBuffer buffer(reinterpret_cast<char *>(payload->data), payload->length);
        eprosima::fastcdr::Cdr cdr(buffer, eprosima::fastcdr::Cdr::DEFAULT_ENDIAN, eprosima::fastcdr::Cdr::DDS_CDR);
        cdr.read_encapsulation();
        cdr >> wind->station >> wind->speed;
        return true;
    }

    std::function<uint32_t()> getSerializedSizeProvider(void *) override {
        return [] { return 256u; };
    }

    void *createData() override { return new Wind; }

    void deleteData(void *data) override { delete static_cast<Wind *>(data); }

    bool getKey(void *, rtps::InstanceHandle_t *, bool) override { return false; }
};

class Prints : public DataReaderListener {
    void on_data_available(DataReader *reader) override {
        Wind wind;
        SampleInfo info;
        while (reader->take_next_sample(&wind, &info) == ReturnCode_t::RETCODE_OK) {
            if (info.valid_data)
                std::cout << "got " << wind.speed << std::endl;
        }
    }
};

template <class Qos>
static void set(Qos &qos, const std::set<std::string> &words) {
    qos.reliability().kind = words.count("best-effort") ? BEST_EFFORT_RELIABILITY_QOS : RELIABLE_RELIABILITY_QOS;
    qos.durability().kind = words.count("transient-local") ? TRANSIENT_LOCAL_DURABILITY_QOS : VOLATILE_DURABILITY_QOS;
    qos.history().kind = KEEP_ALL_HISTORY_QOS;
}

// On this machine alone, without multicast.
static DomainParticipantQos loopback() {
    DomainParticipantQos qos;
    qos.name("fast-peer");
    auto udp = std::make_shared<UDPv4TransportDescriptor>();
    udp->interfaceWhiteList.push_back("127.0.0.1");
    qos.transport().use_builtin_transports = false;
    qos.transport().user_transports.push_back(udp);
    rtps::Locator_t peer;
    rtps::IPLocator::setIPv4(peer, 127, 0, 0, 1);
    qos.wire_protocol().builtin.initialPeersList.push_back(peer);
    rtps::IPLocator::setIPv4(peer, 127, 0, 0, 1);
    qos.wire_protocol().builtin.metatrafficUnicastLocatorList.push_back(peer);
    return qos;
}

int main(int count, char **words) {
    if (count < 5)
        return 2;
    std::set<std::string> asked(words + 5, words + count);
    auto factory = DomainParticipantFactory::get_instance();
    auto participant = factory->create_participant(std::stoi(words[1]), loopback());
    if (participant == nullptr)
        return 1;
    TypeSupport(new WindType).register_type(participant);
    auto topic = participant->create_topic(words[3], "demo::Wind", TOPIC_QOS_DEFAULT);
    std::string line;
    Prints prints;
    if (std::string(words[4]) == "writer") {
        PublisherQos of_publisher;
        of_publisher.partition().push_back(words[2]);
        DataWriterQos qos;
        set(qos, asked);
        auto writer = participant->create_publisher(of_publisher)->create_datawriter(topic, qos);
        std::cout << "ready" << std::endl;
        Wind wind{"OSF", 0};
        while (std::getline(std::cin, line)) {
            for (int number = std::stoi(line); number > 0; number--) {
                wind.speed += 1;
                writer->write(&wind);
            }
        }
    } else {
        SubscriberQos of_subscriber;
        of_subscriber.partition().push_back(words[2]);
        DataReaderQos qos;
        set(qos, asked);
        participant->create_subscriber(of_subscriber)->create_datareader(topic, qos, &prints);
        std::cout << "ready" << std::endl;
        while (std::getline(std::cin, line)) {
        }
    }
    participant->delete_contained_entities();
    factory->delete_participant(participant);
    return 0;
}
