//! Options of `campanile pub`.

use super::{ChannelArg, EventTypeArg, ServerOptions, TransportArg, event_type, is_type_name, rate};
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

// `{n}` means a new line to clap, so that it is taken apart here by an escape sequence of no effect, which clap leaves out
// where there is no terminal.
pub(super) const PUB_EXAMPLES: &str = "\
Examples:
  campanile pub --type Telescope/Temperature celsius=11.5 dome=3 site=north
  campanile pub --name door-2 code:string=17 'tags=[\"a\",\"b\"]' raw:octets=cafe
  campanile pub --count 100 --rate 10 sequence={\x1b[0mn}
  seq 5 | campanile pub --lines
  campanile pub --any 11.5
  campanile sub --json | campanile pub --json --server other.example.org
  campanile pub --json events.json --rate 100
  campanile pub --idl weather.idl --type Weather/Wind speed=12.5 'place={\"lat\":1.5}'

Each KEY=VALUE becomes a field of filterable_data. Its type follows from the
value: true and false are boolean; whole numbers long, long long or unsigned
long long, whichever is the first to hold them; other numbers double; [..] is a
sequence and {..} a struct, in JSON; the rest, or text in double quotes, string.
KEY:TYPE=VALUE chooses one of: boolean, octet, char, short, ushort, long, ulong,
longlong, ulonglong, float, double, string, wstring, octets (hexadecimal).
{\x1b[0mn} stands for the event's number, counted from 1. What begins with a hyphen and
is neither option nor number comes behind --.

With --json each line of FILE, or of standard input, is an event as `sub --json`
prints it; what a line leaves out is as the options say. Types of values follow
from the JSON, and of the body from its type where that says more.

With --idl FILE the fields, or those of each line, become a struct that FILE
declares: --type [DOMAIN/]STRUCT says which if there are several, and is the event
type. Values have to fit its members, and all have to be there. The struct is the
body, with its plain members as fields for filters; --event-form alma puts it into
filterable_data[0], as ALMA Common Software does.

A first word without = is the type: Weather/Wind, or Wind without a domain. Where
a channel is called Wind, say /Wind, or which channel by --channel.

`sub --json | pub --json` on one channel goes round for ever, as what is published
comes again: name another --channel or --server.

With --channel NAME the channel is made if there is none. With --transport dds too,
events are structs of the fields, and go to other programs without a service.

With --count 0, a service that goes away is waited for: the event that it did
not take is published when it is back. One that it may have taken is not
published again but counted as not confirmed. Otherwise that is a failure.
Exit status: 0 all events were taken; 1 not all; 2 wrong usage.";

/// Where in an event a struct is that IDL declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventForm {
    /// The body, with its plain members as fields
    Body,
    /// filterable_data[0], under its name
    Alma,
}

#[derive(Debug, Args)]
pub(crate) struct PubOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// The channel [default: the default channel]
    #[arg(long, short = 'c', value_name = "CHANNEL")]
    pub(crate) channel: Option<ChannelArg>,
    /// What carries events [default: that of the context, or notification]
    #[arg(long, value_enum)]
    pub(crate) transport: Option<TransportArg>,
    /// The event type [default: Campanile/Test]; with --idl the struct, perhaps with the event's domain
    #[arg(long = "type", short = 't', value_name = "DOMAIN/NAME", value_parser = pub_type)]
    pub(crate) event_type: Option<EventTypeArg>,
    /// The event name, which tells events of one type apart
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) name: String,
    /// A property of the event's header, such as Priority:short=3
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) header: Vec<String>,
    /// The remainder of the body
    #[arg(long, value_name = "VALUE", conflicts_with_all = ["lines", "size"])]
    pub(crate) body: Option<String>,
    /// A body of so many octets
    #[arg(long, value_name = "BYTES", conflicts_with = "lines")]
    pub(crate) size: Option<u32>,
    /// One event for each line of standard input, with the line as its body
    #[arg(long, conflicts_with = "count")]
    pub(crate) lines: bool,
    /// One event for each line of JSON, of a file or of standard input
    #[arg(long, conflicts_with_all = ["count", "lines", "body", "size"])]
    pub(crate) json: bool,
    /// Make structs of a type that this file of IDL declares
    #[arg(long, value_name = "FILE", conflicts_with_all = ["lines", "body", "size"])]
    pub(crate) idl: Option<PathBuf>,
    /// With --idl: where in the event the struct is [default: that of the context, or body]
    #[arg(long, value_name = "FORM", value_enum, requires = "idl")]
    pub(crate) event_form: Option<EventForm>,
    /// Number of events; 0 goes on until Ctrl-C, also after the service was away
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1)]
    pub(crate) count: u64,
    /// Events per second [default: as fast as the service takes them]
    #[arg(long, value_name = "HZ", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Publish Anys instead of structured events: one VALUE, or a struct of the fields
    #[arg(long, conflicts_with_all = ["header", "body"])]
    pub(crate) any: bool,
    /// Do not say what was published
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// The event's type, if --type does not say it, and its fields; with --any also a single value; with --json the file, - for standard input
    #[arg(value_name = "DOMAIN/NAME|KEY=VALUE", allow_negative_numbers = true)]
    pub(crate) fields: Vec<String>,
}

impl PubOptions {
    /// The same with the type where `--type` puts it, if it was said as the first word: `campanile pub Weather/Wind speed=3`, or
    /// `campanile pub Wind speed=3` without a domain.
    ///
    /// # Errors
    /// That word is no event type.
    pub(crate) fn arranged(mut self) -> Result<Self, Failure> {
        let is_type = |word: &String| !word.contains('=') && (word.contains('/') || is_type_name(word));
        let may_be = self.event_type.is_none() && !self.any && !self.json;
        if may_be && self.fields.first().is_some_and(is_type) {
            let text = self.fields.remove(0);
            self.event_type = Some(pub_type(&text).map_err(|why| Failure::Usage(format!("{text}: {why}")))?);
        }
        Ok(self)
    }
}

/// `DOMAIN/NAME`, or a name alone: that of a struct, or of a type without a domain.
fn pub_type(text: &str) -> Result<EventTypeArg, String> {
    match text.split_once('/') {
        Some((_, name)) if name.contains('/') => Err("a type is DOMAIN/NAME, and the name has no /".to_owned()),
        None if !text.is_empty() => Ok(EventTypeArg { domain: None, name: text.to_owned() }),
        _ => event_type(text),
    }
}
