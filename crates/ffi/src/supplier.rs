//! Publishing with an answer for each event.

use crate::consumer::{Context, Release};
use crate::gate::Gate;
use crate::log::listen;
use crate::pointers::{borrow, give, octets, take, text};
use crate::settings::SettingsHandle;
use crate::status::{Failure, guarded};
use crate::trouble::{OnTrouble, report};
use crate::types::Type;
use campanile::raw::RawSupplier;
use campanile::{ErrorCode, Settings};
use std::ffi::{c_char, c_void};
use std::process;
use std::sync::Arc;

/// Publishes events of any declared types into a channel. Any number of threads may use one at once.
pub struct Supplier(pub(crate) RawSupplier, Arc<Gate>, u32);

/// Connects to a channel, which is made if it does not exist. `settings` may be a null pointer: those of `campanile_settings_load`. To be
/// freed with `campanile_supplier_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_supplier_new(
    channel: *const c_char,
    settings: *const SettingsHandle,
    supplier: *mut *mut Supplier,
) -> ErrorCode {
    listen();
    guarded(|| {
        // SAFETY: the header asks for it.
        let (channel, settings) = unsafe { (text(channel, "channel")?, settings.as_ref()) };
        let made = match settings {
            Some(settings) => RawSupplier::new(channel, &settings.0)?,
            None => RawSupplier::new(channel, &Settings::load()?)?,
        };
        // SAFETY: the header asks for it.
        unsafe { give(supplier, Supplier(made, Arc::default(), process::id())) }
    })
}

/// Publishes an event and waits until the service has taken it. The supplier reconnects by itself after a restart of the service; it waits
/// for the service for `wait_for_restart_ms` (30 s), and then returns `CAMPANILE_STATUS_UNREACHABLE`. An event that may have been taken is
/// not tried again: `campanile_last_was_not_carried_out` tells whether it may be published again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_supplier_publish(
    supplier: *const Supplier,
    r#type: *const Type,
    cdr: *const u8,
    cdr_size: usize,
) -> ErrorCode {
    guarded(|| {
        // SAFETY: the header asks for it.
        let (supplier, of, cdr) =
            unsafe { (borrow(supplier, "supplier")?, borrow(r#type, "type")?, octets(cdr, cdr_size, "cdr")?) };
        Ok(supplier.0.publish(&of.declared, cdr)?)
    })
}

/// Has `function` called for trouble that `campanile_supplier_publish` does not return: over DDS, readers that do not match. Without a
/// function it is logged. After the supplier is freed the function runs no more, unless the function itself frees it. `release` is called
/// with `context` when the library no longer uses that, or at once where there is no DDS; it may be a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_supplier_on_trouble(
    supplier: *const Supplier,
    function: OnTrouble,
    context: *mut c_void,
    release: Release,
) -> ErrorCode {
    let context = Context { pointer: context, release };
    guarded(|| {
        // SAFETY: the header asks for it.
        let supplier = unsafe { borrow(supplier, "supplier") }?;
        let Some(function) = function else { return Err(Failure::argument("function is a null pointer")) };
        let gate = Arc::clone(&supplier.1);
        supplier.0.on_trouble(move |trouble| {
            // So the closure has all of it, which releases it.
            let context = &context;
            let Some(_inside) = gate.enter() else { return };
            // SAFETY: the header asks for a function that may be called so.
            report(trouble, |report| unsafe { function(context.pointer, report) });
        });
        Ok(())
    })
}

/// Times that the supplier reconnected to a restarted service. 0 for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_supplier_reconnections(supplier: *const Supplier) -> u64 {
    // SAFETY: the header asks for it.
    unsafe { supplier.as_ref() }.map_or(0, |supplier| supplier.0.reconnections())
}

/// Threads that wait in `campanile_supplier_publish` for the service to come back. 0 for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_supplier_waiting(supplier: *const Supplier) -> u32 {
    // SAFETY: the header asks for it.
    unsafe { supplier.as_ref() }.map_or(0, |supplier| supplier.0.waiting())
}

/// Ends the waits of `campanile_supplier_publish`: each such call returns `CAMPANILE_STATUS_UNREACHABLE`, and later ones do not wait for a
/// restart any more. For programs about to free a supplier that other threads publish with. A null pointer is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_supplier_stop_waiting(supplier: *const Supplier) {
    // SAFETY: the header asks for it.
    if let Some(supplier) = unsafe { supplier.as_ref() } {
        supplier.0.stop_waiting();
    }
}

/// Frees a supplier. It disconnects from the service once its publishers are gone as well. A null pointer is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_supplier_free(supplier: *mut Supplier) {
    let _ = guarded(|| {
        // SAFETY: the header asks for it.
        let supplier = unsafe { take(supplier) };
        if let Some(Supplier(_, gate, maker)) = supplier.as_deref()
            && *maker == process::id()
        {
            gate.close();
            if !gate.is_this_inside() {
                gate.wait_until_empty();
            }
        }
        drop(supplier);
        Ok(())
    });
}
