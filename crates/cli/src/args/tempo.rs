//! Options of `campanile tempo …`.

use super::{TlsOptions, seconds};
use clap::{Args, Subcommand};
use client::tempo::Address;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  campanile tempo sub Weather/Wind                  in one terminal
  campanile tempo pub Weather/Wind '11.5 m/s'       in another one
  campanile tempo sub Weather/Wind --at udp://239.1.2.3:2811
  campanile tempo topics --at udp://239.1.2.3:2811
  campanile tempo probe Weather/Wind --at tcp://broker.example.org:2811

Addresses are udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT: of a peer, a
broker (`campanile serve --tempo-listen`; `tls.tempo_listen`), a multicast group,
or a broadcast address; nothing else differs. udp://@:2811 waits for peers at that
port instead.

Without an address the commands meet at udp://127.0.0.1:2811: whichever comes
first waits there, unless a broker does, and the others turn to it. That is for
one publisher with many subscribers, or one subscriber with many publishers; for
more, start a broker there, or name a group.";

const PUB_EXAMPLES: &str = "\
Examples:
  campanile tempo pub Weather/Wind '11.5 m/s'
  campanile tempo pub Weather/Wind 'sample {\x1b[0mn}' --count 1000 --rate 100 --report
  campanile tempo pub Weather/Wind --size 128 --count 0 --rate 250
  journalctl -f | campanile tempo pub Log/Lines - --at udp://239.1.2.3:2811

{\x1b[0mn} stands for the message's number, counted from 1; - for the lines of standard
input, each a message. Before the first one it is waited for a subscriber, but not
with --count 0, which goes on until Ctrl-C whether anybody listens or not.

--rate is kept to, and announced; what is lost over UDP is not sent again.
Exit status: 0 all messages were sent to a subscriber; 1 not all, or there was none;
2 wrong usage.";

const SUB_EXAMPLES: &str = "\
Examples:
  campanile tempo sub Weather/Wind
  campanile tempo sub Weather/Wind -n 1 --wait 10 && echo there is wind
  campanile tempo sub Weather/Wind --json | jq -r .text
  campanile tempo sub Camera/Frames --raw -n 1 > frame.bin
  campanile tempo sub Weather/Wind --at tcp://10.0.0.7:2811 --report

In a pipe each message is one line, without the time; what is no text is
hexadecimal behind 0x. With --json each is one object a line with the members
received, topic, publisher, sequence, priority, and text or octets (hexadecimal).
--raw writes the octets and nothing else. Losses are reported on standard error.
Exit status: 0 after -n messages, or when stopped without -n; 1 if fewer came;
2 wrong usage.";

const TOPICS_EXAMPLES: &str = "\
Examples:
  campanile tempo topics
  campanile tempo topics --at udp://239.1.2.3:2811 --seconds 10
  campanile tempo topics --json | jq -r 'select(.role == \"publisher\") | .topic'

Listens to announcements, and shows what is published and subscribed, with rates
and deadlines. Announcements go to a group, or to the end point that waits at
an address: they are heard there only where no end point waits. A broker's topics
are what `campanile stats tempo` and `campanile top` show.
Exit status: 0 something was announced; 1 nothing was; 2 wrong usage.";

const PROBE_EXAMPLES: &str = "\
Examples:
  campanile tempo probe Weather/Wind
  campanile tempo probe Weather/Wind -n 100 --interval 0.1
  campanile tempo probe Weather/Wind --at udp://239.1.2.3:2811 --json

Publishes nothing but probes, which go where messages go, through all queues, and
which each subscriber sends back at once: what they take is more than what a
message takes, by the way back. The other end need not know of it.
Exit status: 0 a probe came back; 1 none did; 2 wrong usage.";

const HZ_EXAMPLES: &str = "\
Examples:
  campanile tempo hz Weather/Wind
  campanile tempo hz Weather/Wind --interval 10 --json

Every interval: messages a second, the shortest, mean and longest time between
two of them, their standard deviation, and what was lost.
Exit status: 0 messages came; 1 none did; 2 wrong usage.";

const BW_EXAMPLES: &str = "\
Examples:
  campanile tempo bw Camera/Frames
  campanile tempo bw Camera/Frames --at udp://239.1.2.3:2811 -n 3

Every interval: octets a second, and the smallest, mean and largest message.
Exit status: 0 messages came; 1 none did; 2 wrong usage.";

/// `campanile tempo …`.
#[derive(Debug, Subcommand)]
pub(crate) enum TempoCommand {
    /// Publish messages on a topic
    #[command(after_help = PUB_EXAMPLES)]
    Pub(TempoPubOptions),
    /// Subscribe to a topic and print what comes
    #[command(after_help = SUB_EXAMPLES)]
    Sub(TempoSubOptions),
    /// Show publishers and subscribers of topics
    #[command(after_help = TOPICS_EXAMPLES)]
    Topics(TempoTopicsOptions),
    /// Measure the delay to each subscriber of a topic
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(TempoProbeOptions),
    /// Show how often messages come
    #[command(after_help = HZ_EXAMPLES)]
    Hz(TempoGaugeOptions),
    /// Show how much comes
    #[command(after_help = BW_EXAMPLES)]
    Bw(TempoGaugeOptions),
}

/// How others are met.
#[derive(Debug, Clone, Args)]
pub(crate) struct MeetOptions {
    /// Also wait at this address of this machine; over UDP messages are sent from there
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) bind: Option<SocketAddr>,
    /// This machine's address on the network of a multicast group [default: the system's choice]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) interface: Option<IpAddr>,
    /// How many networks what is sent to a multicast group goes through
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) ttl: u8,
    /// Octets of a datagram, 512 to 65507 [default: 1472, or what the way takes if that is less]
    #[arg(long, value_name = "BYTES")]
    pub(crate) datagram: Option<usize>,
    /// Seconds between two announcements, 0.01 to 60; reports and probes come as often
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) period: Duration,
    /// What brokers call this command in logs and lists; an empty text: nothing [default: its program and host]
    #[arg(long, value_name = "NAME", value_parser = super::server::client_name)]
    pub(crate) client_name: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TempoPubOptions {
    /// The topic, by convention Domain/Name
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: String,
    /// The message; - for one from each line of standard input [default: its number]
    #[arg(value_name = "MESSAGE", allow_hyphen_values = true, conflicts_with = "size")]
    pub(crate) message: Option<String>,
    /// Where the others are: udp://, tcp:// or tls://HOST:PORT [default: udp://127.0.0.1:2811]
    #[arg(long = "at", short = 'a', value_name = "ADDRESS", aliases = ["to", "from"], short_aliases = ['t', 'f'])]
    pub(crate) to: Option<Address>,
    #[command(flatten)]
    pub(crate) meet: MeetOptions,
    /// Number of messages; 0 goes on until Ctrl-C [default: 1, or as many as there are lines]
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Messages a second [default: as fast as they are taken]
    #[arg(long, value_name = "HZ", value_parser = super::rate)]
    pub(crate) rate: Option<f64>,
    /// Publish no faster than the slowest subscriber wishes, of --rate
    #[arg(long, requires = "rate")]
    pub(crate) follow: bool,
    /// Of messages that wait the one with the larger priority goes first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i16,
    /// Seconds within which messages ought to be forwarded, which is announced
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
    /// Messages of so many octets
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<usize>,
    /// Seconds to wait for a subscriber, and for room where there is none
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) wait: Duration,
    /// Tell on standard error, once in a period, what subscribers report
    #[arg(long)]
    pub(crate) report: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TempoSubOptions {
    /// The topic, by convention Domain/Name
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: String,
    /// Where the others are: udp://, tcp:// or tls://HOST:PORT [default: udp://127.0.0.1:2811]
    #[arg(long = "at", short = 'a', value_name = "ADDRESS", aliases = ["to", "from"], short_aliases = ['t', 'f'])]
    pub(crate) from: Option<Address>,
    #[command(flatten)]
    pub(crate) meet: MeetOptions,
    /// End after so many messages
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    /// Print each message as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the octets of messages and nothing else
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Print no messages, only the summary
    #[arg(long, short = 'q', conflicts_with_all = ["json", "raw"])]
    pub(crate) quiet: bool,
    /// Wished messages a second, as publishers hear it
    #[arg(long, value_name = "HZ", value_parser = super::rate)]
    pub(crate) rate: Option<f64>,
    /// Find the rate at which nothing is lost, from --rate on, and wish for that; `pub --follow` follows
    #[arg(long, requires = "rate")]
    pub(crate) loss_free: bool,
    /// Wished deadline for forwarding messages, in seconds, as publishers hear it
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
    /// Tell on standard error, once in a period, what publishers announce and what came
    #[arg(long)]
    pub(crate) report: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TempoTopicsOptions {
    /// Where announcements go: a group, or an address that is not in use yet [default: udp://127.0.0.1:2811]
    #[arg(long = "at", short = 'a', value_name = "ADDRESS", aliases = ["to", "from"], short_aliases = ['t', 'f'])]
    pub(crate) at: Option<Address>,
    /// The same
    #[arg(value_name = "ADDRESS", hide = true, conflicts_with = "at")]
    pub(crate) address: Option<Address>,
    /// This machine's address on the network of a multicast group [default: the system's choice]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) interface: Option<IpAddr>,
    /// Seconds to listen; nodes that announce less often are missed
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// Print one JSON object for each line
    #[arg(long)]
    pub(crate) json: bool,
}

impl TempoTopicsOptions {
    /// The address, whichever way it was said.
    pub(crate) fn place(&self) -> Option<&Address> {
        self.at.as_ref().or(self.address.as_ref())
    }
}

#[derive(Debug, Args)]
pub(crate) struct TempoProbeOptions {
    /// The topic, by convention Domain/Name
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: String,
    /// Where the others are: udp://, tcp:// or tls://HOST:PORT [default: udp://127.0.0.1:2811]
    #[arg(long = "at", short = 'a', value_name = "ADDRESS", aliases = ["to", "from"], short_aliases = ['t', 'f'])]
    pub(crate) to: Option<Address>,
    /// This machine's address on the network of a multicast group [default: the system's choice]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) interface: Option<IpAddr>,
    /// Seconds between two probes, 0.01 to 60
    #[arg(long, short = 'i', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// End after so many echoes
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    /// Print each echo as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TempoGaugeOptions {
    /// The topic, by convention Domain/Name
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: String,
    /// Where the others are: udp://, tcp:// or tls://HOST:PORT [default: udp://127.0.0.1:2811]
    #[arg(long = "at", short = 'a', value_name = "ADDRESS", aliases = ["to", "from"], short_aliases = ['t', 'f'])]
    pub(crate) from: Option<Address>,
    /// This machine's address on the network of a multicast group [default: the system's choice]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) interface: Option<IpAddr>,
    /// Seconds over which is counted
    #[arg(long, short = 'i', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// End after so many intervals
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Print one JSON object for each interval
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
}
