//! Identity of each socket in a lane's poll.

use crate::lane::io::slots::Token;
use crate::protocols::Tag;

/// Owner and purpose of a socket. The poll stores it as a number, the datum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Socket {
    /// Not a socket: the waker with which other threads wake the lane.
    Waker,
    /// A listener for clients of a protocol, in the clear or with TLS.
    Listener(Tag, Layer),
    /// Socket for the datagrams of a protocol's clients.
    Datagrams(Tag),
    /// Socket for datagrams sent to a group that a protocol has joined.
    Group(Tag),
    /// A connection that a client made.
    Incoming(Tag, Token),
    /// A connection made to a client.
    Outgoing(Tag, Token),
}

/// Layer between a connection and its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    Plain,
    Tls,
}

impl Layer {
    /// Both layers.
    pub(crate) const ALL: [Self; 2] = [Self::Plain, Self::Tls];
}

/// Position of the kind, in the two highest bits of the datum. Eight bits for the protocol follow, then the token.
const KIND: u32 = 62;
const PROTOCOL: u32 = Token::BITS;
const WAKER: u64 = 0;
/// Flag beside the waker's kind, which has neither protocol nor token.
const DATAGRAMS: u64 = 1;
const GROUP: u64 = 2;
const LISTENER: u64 = 1;
const INCOMING: u64 = 2;

impl Socket {
    /// The socket as the number that the poll stores.
    #[inline]
    pub(crate) const fn datum(self) -> u64 {
        match self {
            Self::Waker => WAKER << KIND,
            Self::Datagrams(protocol) => WAKER << KIND | protocol.number() << PROTOCOL | DATAGRAMS,
            Self::Listener(protocol, layer) => LISTENER << KIND | protocol.number() << PROTOCOL | layer as u64,
            Self::Group(protocol) => WAKER << KIND | protocol.number() << PROTOCOL | GROUP,
            Self::Incoming(protocol, token) => INCOMING << KIND | protocol.number() << PROTOCOL | token.to_bits(),
            Self::Outgoing(protocol, token) => (INCOMING + 1) << KIND | protocol.number() << PROTOCOL | token.to_bits(),
        }
    }

    /// The socket of a datum.
    #[inline]
    pub(crate) fn of_datum(datum: u64) -> Self {
        let (protocol, token) = (Tag::numbered(datum >> PROTOCOL), Token::from_bits(datum));
        match datum >> KIND {
            WAKER if datum & DATAGRAMS != 0 => Self::Datagrams(protocol),
            WAKER if datum & GROUP != 0 => Self::Group(protocol),
            WAKER => Self::Waker,
            LISTENER => {
                Self::Listener(protocol, if datum & 1 == Layer::Tls as u64 { Layer::Tls } else { Layer::Plain })
            }
            INCOMING => Self::Incoming(protocol, token),
            _ => Self::Outgoing(protocol, token),
        }
    }

    /// Whether the socket is a connection.
    pub(crate) const fn is_connection(self) -> bool {
        matches!(self, Self::Incoming(..) | Self::Outgoing(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_socket_is_itself_again_as_a_datum_whatever_its_protocol_and_token() {
        let tokens = [Token::from_bits(0), Token::from_bits(7), Token::from_bits(u64::MAX)];
        for protocol in Tag::ALL {
            let of_protocol = tokens
                .into_iter()
                .flat_map(|token| [Socket::Incoming(protocol, token), Socket::Outgoing(protocol, token)]);
            for socket in of_protocol.chain([
                Socket::Waker,
                Socket::Listener(protocol, Layer::Plain),
                Socket::Listener(protocol, Layer::Tls),
                Socket::Datagrams(protocol),
                Socket::Group(protocol),
            ]) {
                assert_eq!(Socket::of_datum(socket.datum()), socket);
            }
        }
    }
}
