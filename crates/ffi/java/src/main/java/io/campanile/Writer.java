package io.campanile;

import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * Octets in CDR: this processor's byte order, each number at a multiple of its size. They lie where the library reads them, and are used
 * again for each value.
 */
final class Writer {
    private static final int RETAINED_MAX = 1 << 20;
    private static final int FIRST = 256;

    /** Memory that the library sees. */
    static final class Shared {
        final ByteBuffer octets;
        final long address;

        Shared(int count) {
            octets = ByteBuffer.allocateDirect(count).order(ByteOrder.nativeOrder());
            address = Pointer.nativeValue(Native.getDirectBufferPointer(octets));
        }
    }

    /** Where the library puts an event's number. */
    final Shared number = new Shared(Long.BYTES);

    private Shared shared = new Shared(FIRST);
    private ByteBuffer octets = shared.octets;
    private int size;

    void clear() {
        size = 0;
        if (octets.capacity() > RETAINED_MAX) {
            become(new Shared(FIRST));
        }
    }

    /** How many there are. */
    int size() {
        return size;
    }

    /** Where they are, until more are written. */
    long address() {
        return shared.address;
    }

    private void become(Shared other) {
        shared = other;
        octets = other.octets;
    }

    private int room(int alignment, int count) {
        int begin = (size + alignment - 1) & -alignment;
        long end = (long) begin + count;
        if (end > octets.capacity()) {
            grow(end);
        }
        // What was here before must not travel as padding.
        for (int at = size; at < begin; at++) {
            octets.put(at, (byte) 0);
        }
        size = (int) end;
        return begin;
    }

    private void grow(long end) {
        if (end > Integer.MAX_VALUE - 8) {
            throw CampanileException.value("it has more octets than can travel");
        }
        var larger = new Shared((int) Math.min(Integer.MAX_VALUE - 8, Math.max(end, 2L * octets.capacity())));
        larger.octets.put(0, octets, 0, size);
        become(larger);
    }

    void int8(int value) {
        int at = room(1, 1);
        octets.put(at, (byte) value);
    }

    void int16(short value) {
        int at = room(2, 2);
        octets.putShort(at, value);
    }

    void int32(int value) {
        int at = room(4, 4);
        octets.putInt(at, value);
    }

    void int64(long value) {
        int at = room(8, 8);
        octets.putLong(at, value);
    }

    void float32(float value) {
        int at = room(4, 4);
        octets.putFloat(at, value);
    }

    void float64(double value) {
        int at = room(8, 8);
        octets.putDouble(at, value);
    }

    void octets(byte[] all) {
        int at = room(1, all.length);
        octets.put(at, all);
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
}
