package io.campanile;

import com.sun.jna.Callback;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.util.Map;

/** The C interface: include/campanile.h says what each function promises. */
final class Library {
    static final int OK = 0;
    static final int TIMEOUT = 101;
    static final int CLOSED = 102;

    // What is called for each event has addresses as numbers: JNA would make a `Pointer` of each that comes, and look into each that goes.

    /** For events. */
    interface OnEvent extends Callback {
        int invoke(long context, long event);
    }

    /** For what is none. */
    interface OnTrouble extends Callback {
        void invoke(Pointer context, Pointer trouble);
    }

    static {
        // `campanile.library` names a file; without it, the library within this jar, or one that the system finds.
        String named = System.getProperty("campanile.library");
        NativeLibrary library = NativeLibrary.getInstance(
                named == null ? "campanile" : named,
                Map.of(
                        com.sun.jna.Library.OPTION_CLASSLOADER, Library.class.getClassLoader(),
                        com.sun.jna.Library.OPTION_STRING_ENCODING, "UTF-8"));
        Native.register(Library.class, library);
    }

    private Library() {}

    static native String campanile_last_error();

    static native byte campanile_last_was_not_carried_out();

    static native int campanile_last_column();

    static native String campanile_version();

    static native int campanile_settings_load(PointerByReference settings);

    static native int campanile_settings_of_context(String name, PointerByReference settings);

    static native int campanile_settings_set(Pointer settings, String key, String value);

    static native void campanile_settings_free(Pointer settings);

    static native int campanile_type_new(String idl, String name, String domain, PointerByReference type);

    static native String campanile_type_idl(Pointer type);

    static native void campanile_text_free(Pointer text);

    static native int campanile_supplier_new(String channel, Pointer settings, PointerByReference supplier);

    static native int campanile_supplier_publish(long supplier, long type, long cdr, long size);

    static native long campanile_supplier_reconnections(Pointer supplier);

    static native int campanile_supplier_waiting(Pointer supplier);

    static native void campanile_supplier_stop_waiting(Pointer supplier);

    static native void campanile_supplier_free(Pointer supplier);

    static native int campanile_publisher_new(Pointer supplier, int[] options, PointerByReference publisher);

    static native int campanile_publisher_publish(long publisher, long type, long cdr, long size, long number);

    static native int campanile_publisher_flush(Pointer publisher);

    static native int campanile_publisher_sync(Pointer publisher, long[] tally);

    static native int campanile_publisher_tally(Pointer publisher, long[] tally);

    static native int campanile_publisher_next_loss(Pointer publisher, Pointer loss);

    static native int campanile_publisher_close(Pointer publisher, int limitMs, long[] tally);

    static native void campanile_publisher_free(Pointer publisher);

    static native int campanile_consumer_new(String channel, Pointer settings, PointerByReference consumer);

    static native int campanile_consumer_on(Pointer consumer, Pointer type, OnEvent function, Pointer context, Pointer release);

    static native int campanile_consumer_on_any(Pointer consumer, OnEvent function, Pointer context, Pointer release);

    static native int campanile_supplier_on_trouble(Pointer supplier, OnTrouble function, Pointer context, Pointer release);

    static native int campanile_consumer_on_trouble(Pointer consumer, OnTrouble function, Pointer context, Pointer release);

    static native int campanile_consumer_filter(Pointer consumer, String constraint);

    static native int campanile_consumer_start_from(Pointer consumer, String start);

    static native int campanile_consumer_slow_after(Pointer consumer, int milliseconds);

    static native int campanile_consumer_ready(Pointer consumer);

    static native int campanile_consumer_next(Pointer consumer, long limitMs, PointerByReference event);

    static native int campanile_consumer_check(Pointer consumer);

    static native int campanile_consumer_stop(Pointer consumer);

    static native long campanile_consumer_reconnections(Pointer consumer);

    static native byte campanile_consumer_has_ended(Pointer consumer);

    static native int campanile_consumer_close(Pointer consumer);

    static native void campanile_consumer_free(Pointer consumer);

    static native void campanile_callback_failed(String reason);

    static native int campanile_event_json(Pointer event, PointerByReference json);

    static native int campanile_event_idl(Pointer event, PointerByReference idl);

    static native void campanile_event_free(Pointer event);

    /** Throws what a status says. */
    static void check(int status) {
        if (status != OK) {
            boolean wasNotCarriedOut = campanile_last_was_not_carried_out() != 0;
            String message = campanile_last_error();
            throw new CampanileException(CampanileException.Code.of(status), message, wasNotCarriedOut, campanile_last_column());
        }
    }

    /** A text for the library. What it cannot have is refused here, since it would be cut there. */
    static String text(String text, String what) {
        if (text == null) {
            throw new NullPointerException(what + " is null");
        }
        if (text.indexOf('\0') >= 0) {
            throw new CampanileException(CampanileException.Code.ARGUMENT, what + " has a NUL in it", true);
        }
        return text;
    }

    /** A text that the library gave. */
    static String taken(PointerByReference text) {
        Pointer pointer = text.getValue();
        try {
            return pointer.getString(0, "UTF-8");
        } finally {
            campanile_text_free(pointer);
        }
    }
}
