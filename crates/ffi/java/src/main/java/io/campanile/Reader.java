package io.campanile;

import com.sun.jna.Pointer;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** Reads octets that the library has checked; what is beyond their end is an error all the same. Used again for each value. */
final class Reader {
    private static final VarHandle SHORT = view(short[].class);
    private static final VarHandle INT = view(int[].class);
    private static final VarHandle LONG = view(long[].class);
    private static final VarHandle FLOAT = view(float[].class);
    private static final VarHandle DOUBLE = view(double[].class);

    /** Where an event has its value, its address and its size behind each other. */
    private static final int VALUE = 48;

    private final long[] value = new long[2];
    private byte[] octets = new byte[256];
    private int at;
    private int size;

    private static VarHandle view(Class<?> array) {
        return MethodHandles.byteArrayViewVarHandle(array, ByteOrder.nativeOrder());
    }

    /** Begins with an event's value. */
    void begin(Pointer event) {
        event.read(VALUE, value, 0, value.length);
        if (value[1] > Integer.MAX_VALUE - 8) {
            throw CampanileException.value("it has more octets than Java can have in an array");
        }
        int count = (int) value[1];
        if (octets.length < count || octets.length > 1 << 20 && count < 1 << 16) {
            octets = new byte[Math.max(256, count)];
        }
        at = 0;
        size = count;
        new Pointer(value[0]).read(0, octets, 0, count);
    }

    private int take(int alignment, int count) {
        int begin = (at + alignment - 1) & -alignment;
        if (count < 0 || begin > size || count > size - begin) {
            throw CampanileException.value("the octets end too early");
        }
        at = begin + count;
        return begin;
    }

    /** The number of elements, of which each has at least so many octets. */
    int length(int octetsMin) {
        int count = int32();
        if (count < 0 || count > (size - at) / octetsMin) {
            throw CampanileException.value("a sequence is longer than its octets");
        }
        return count;
    }

    byte int8() {
        return octets[take(1, 1)];
    }

    short int16() {
        return (short) SHORT.get(octets, take(2, 2));
    }

    int int32() {
        return (int) INT.get(octets, take(4, 4));
    }

    long int64() {
        return (long) LONG.get(octets, take(8, 8));
    }

    float float32() {
        return (float) FLOAT.get(octets, take(4, 4));
    }

    double float64() {
        return (double) DOUBLE.get(octets, take(8, 8));
    }

    void octets(byte[] all) {
        System.arraycopy(octets, take(1, all.length), all, 0, all.length);
    }

    char character() {
        String text = text();
        if (text.length() != 1) {
            throw CampanileException.value("what came is no char of Java's: " + text);
        }
        return text.charAt(0);
    }

    String text() {
        int count = int32();
        int begin = take(1, count);
        return new String(octets, begin, Math.max(0, count - 1), StandardCharsets.UTF_8);
    }
}
