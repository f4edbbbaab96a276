package io.campanile;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Octets in CDR: this processor's byte order, each number at a multiple of its size. Used again for each value. */
final class Writer {
    static final VarHandle SHORT = view(short[].class);
    static final VarHandle INT = view(int[].class);
    static final VarHandle LONG = view(long[].class);
    static final VarHandle FLOAT = view(float[].class);
    static final VarHandle DOUBLE = view(double[].class);

    private static final int RETAINED_MAX = 1 << 20;

    byte[] octets = new byte[256];
    int size;
    private Memory memory;

    private static VarHandle view(Class<?> array) {
        return MethodHandles.byteArrayViewVarHandle(array, ByteOrder.nativeOrder());
    }

    void clear() {
        size = 0;
        if (octets.length > RETAINED_MAX) {
            octets = new byte[256];
        }
    }

    private int room(int alignment, int count) {
        int begin = (size + alignment - 1) & -alignment;
        long end = (long) begin + count;
        if (end > octets.length) {
            if (end > Integer.MAX_VALUE - 8) {
                throw CampanileException.value("it has more octets than can travel");
            }
            octets = Arrays.copyOf(octets, (int) Math.min(Integer.MAX_VALUE - 8, Math.max(end, 2L * octets.length)));
        }
        // What was here before must not travel as padding.
        for (int at = size; at < begin; at++) {
            octets[at] = 0;
        }
        size = (int) end;
        return begin;
    }

    void int8(int value) {
        int at = room(1, 1);
        octets[at] = (byte) value;
    }

    void int16(short value) {
        int at = room(2, 2);
        SHORT.set(octets, at, value);
    }

    void int32(int value) {
        int at = room(4, 4);
        INT.set(octets, at, value);
    }

    void int64(long value) {
        int at = room(8, 8);
        LONG.set(octets, at, value);
    }

    void float32(float value) {
        int at = room(4, 4);
        FLOAT.set(octets, at, value);
    }

    void float64(double value) {
        int at = room(8, 8);
        DOUBLE.set(octets, at, value);
    }

    void octets(byte[] all) {
        int at = room(1, all.length);
        System.arraycopy(all, 0, octets, at, all.length);
    }

    void text(String text) {
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        if (hasHalves(text)) {
            throw CampanileException.value("half of a surrogate pair is no text");
        }
        int32(utf8.length + 1);
        octets(utf8);
        int8(0);
    }

    private static boolean hasHalves(String text) {
        for (int at = 0; at < text.length(); at++) {
            char c = text.charAt(at);
            if (Character.isSurrogate(c)) {
                boolean isPair = Character.isHighSurrogate(c) && at + 1 < text.length() && Character.isLowSurrogate(text.charAt(at + 1));
                if (!isPair) {
                    return true;
                }
                at++;
            }
        }
        return false;
    }

    /** The octets where the library can read them, until the next value is written. */
    Pointer pointer() {
        if (memory == null || memory.size() < size || memory.size() > RETAINED_MAX && size < RETAINED_MAX) {
            memory = new Memory(Math.max(256, octets.length));
        }
        memory.write(0, octets, 0, size);
        return memory;
    }
}
