//! `CosNotifyComm`: the operations that the two ends of a connection call on each other.
//!
//! A proxy is one of the two ends, so it has these operations as clients have them. The event path handles events; this module answers for
//! proxies unknown to it, or not known yet.

use super::channel_admin::{disconnect, pull, pull_events, push};
use super::exceptions::Raised;
use super::protocol::Protocol;
use super::table::{Call, Interface, Operation, Target};
use super::wire::read_event_types;
use giop::cdr::Reader;

pub(super) static NOTIFY_PUBLISH: Interface = Interface {
    name: "CosNotifyComm::NotifyPublish",
    id: "IDL:omg.org/CosNotifyComm/NotifyPublish:1.0",
    operations: &[Operation::done("offer_change", offer_change)],
};

pub(super) static NOTIFY_SUBSCRIBE: Interface = Interface {
    name: "CosNotifyComm::NotifySubscribe",
    id: "IDL:omg.org/CosNotifyComm/NotifySubscribe:1.0",
    operations: &[Operation::done("subscription_change", subscription_change)],
};

pub(super) static PUSH_CONSUMER: Interface = Interface {
    name: "CosNotifyComm::PushConsumer",
    id: "IDL:omg.org/CosNotifyComm/PushConsumer:1.0",
    operations: &[],
};

pub(super) static PULL_CONSUMER: Interface = Interface {
    name: "CosNotifyComm::PullConsumer",
    id: "IDL:omg.org/CosNotifyComm/PullConsumer:1.0",
    operations: &[],
};

pub(super) static PULL_SUPPLIER: Interface = Interface {
    name: "CosNotifyComm::PullSupplier",
    id: "IDL:omg.org/CosNotifyComm/PullSupplier:1.0",
    operations: &[],
};

pub(super) static PUSH_SUPPLIER: Interface = Interface {
    name: "CosNotifyComm::PushSupplier",
    id: "IDL:omg.org/CosNotifyComm/PushSupplier:1.0",
    operations: &[],
};

pub(super) static STRUCTURED_PUSH_CONSUMER: Interface = Interface {
    name: "CosNotifyComm::StructuredPushConsumer",
    id: "IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0",
    operations: &[
        Operation::done("push_structured_event", push),
        Operation::done("disconnect_structured_push_consumer", disconnect),
    ],
};

pub(super) static STRUCTURED_PULL_CONSUMER: Interface = Interface {
    name: "CosNotifyComm::StructuredPullConsumer",
    id: "IDL:omg.org/CosNotifyComm/StructuredPullConsumer:1.0",
    operations: &[Operation::done("disconnect_structured_pull_consumer", disconnect)],
};

pub(super) static STRUCTURED_PULL_SUPPLIER: Interface = Interface {
    name: "CosNotifyComm::StructuredPullSupplier",
    id: "IDL:omg.org/CosNotifyComm/StructuredPullSupplier:1.0",
    operations: &[
        Operation::done("pull_structured_event", pull),
        Operation::done("try_pull_structured_event", pull),
        Operation::done("disconnect_structured_pull_supplier", disconnect),
    ],
};

pub(super) static STRUCTURED_PUSH_SUPPLIER: Interface = Interface {
    name: "CosNotifyComm::StructuredPushSupplier",
    id: "IDL:omg.org/CosNotifyComm/StructuredPushSupplier:1.0",
    operations: &[Operation::done("disconnect_structured_push_supplier", disconnect)],
};

pub(super) static SEQUENCE_PUSH_CONSUMER: Interface = Interface {
    name: "CosNotifyComm::SequencePushConsumer",
    id: "IDL:omg.org/CosNotifyComm/SequencePushConsumer:1.0",
    operations: &[
        Operation::done("push_structured_events", push),
        Operation::done("disconnect_sequence_push_consumer", disconnect),
    ],
};

pub(super) static SEQUENCE_PULL_CONSUMER: Interface = Interface {
    name: "CosNotifyComm::SequencePullConsumer",
    id: "IDL:omg.org/CosNotifyComm/SequencePullConsumer:1.0",
    operations: &[Operation::done("disconnect_sequence_pull_consumer", disconnect)],
};

pub(super) static SEQUENCE_PULL_SUPPLIER: Interface = Interface {
    name: "CosNotifyComm::SequencePullSupplier",
    id: "IDL:omg.org/CosNotifyComm/SequencePullSupplier:1.0",
    operations: &[
        Operation::done("pull_structured_events", pull_events),
        Operation::done("try_pull_structured_events", pull_events),
        Operation::done("disconnect_sequence_pull_supplier", disconnect),
    ],
};

pub(super) static SEQUENCE_PUSH_SUPPLIER: Interface = Interface {
    name: "CosNotifyComm::SequencePushSupplier",
    id: "IDL:omg.org/CosNotifyComm/SequencePushSupplier:1.0",
    operations: &[Operation::done("disconnect_sequence_push_supplier", disconnect)],
};

/// Every interface of the module, in the order of its IDL.
pub(super) const ALL: &[&Interface] = &[
    &NOTIFY_PUBLISH,
    &NOTIFY_SUBSCRIBE,
    &PUSH_CONSUMER,
    &PULL_CONSUMER,
    &PULL_SUPPLIER,
    &PUSH_SUPPLIER,
    &STRUCTURED_PUSH_CONSUMER,
    &STRUCTURED_PULL_CONSUMER,
    &STRUCTURED_PULL_SUPPLIER,
    &STRUCTURED_PUSH_SUPPLIER,
    &SEQUENCE_PUSH_CONSUMER,
    &SEQUENCE_PULL_CONSUMER,
    &SEQUENCE_PULL_SUPPLIER,
    &SEQUENCE_PUSH_SUPPLIER,
];

/// A supplier announces its offers. Its events pass in any case.
fn offer_change(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    change(protocol, on, args)
}

/// A consumer changes its subscription.
fn subscription_change(Call { protocol, on, args, .. }: Call<'_, '_>) -> Result<(), Raised> {
    change(protocol, on, args)
}

fn change(protocol: &mut Protocol, on: Target, mut args: Reader<'_>) -> Result<(), Raised> {
    let added = read_event_types(&mut args)?;
    let removed = read_event_types(&mut args)?;
    args.finish("the arguments of an operation that changes event types")?;
    protocol.objects.subscribe(on.level()?, &added, &removed)
}
