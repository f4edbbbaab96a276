package io.campanile;

import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;

/** A record class as a type of events, made ready once for the process. */
final class Kind {
    private static final ClassValue<Kind> ALL = new ClassValue<>() {
        @Override
        protected Kind computeValue(Class<?> type) {
            return new Kind(type);
        }
    };

    final Codec codec;
    final Pointer pointer;
    final long address;
    final String idl;

    private Kind(Class<?> type) {
        if (!type.isRecord()) {
            throw CampanileException.type(type.getName() + " is no record");
        }
        var struct = (Codec.Struct) new Codec.Maker().of(type, false);
        var text = new Codec.Idl();
        struct.idl(text);
        EventType said = type.getAnnotation(EventType.class);
        String domain = said == null || said.domain().isEmpty() ? null : said.domain();
        var made = new PointerByReference();
        Library.check(Library.campanile_type_new(text.toString(), struct.fullName(), domain, made));
        codec = struct;
        pointer = made.getValue();
        address = Pointer.nativeValue(pointer);
        idl = Library.campanile_type_idl(pointer);
    }

    static Kind of(Class<?> type) {
        return ALL.get(type);
    }
}
