package io.campanile;

import java.nio.charset.StandardCharsets;

/** Reads octets that the library has checked; what is beyond their end is an error all the same. Used again for each value. */
final class Reader {
    byte[] octets = new byte[256];
    private int at;
    private int size;

    /** Begins with so many octets; returns where they are to be put. */
    byte[] begin(int count) {
        if (octets.length < count || octets.length > 1 << 20 && count < 1 << 16) {
            octets = new byte[Math.max(256, count)];
        }
        at = 0;
        size = count;
        return octets;
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
        return (short) Writer.SHORT.get(octets, take(2, 2));
    }

    int int32() {
        return (int) Writer.INT.get(octets, take(4, 4));
    }

    long int64() {
        return (long) Writer.LONG.get(octets, take(8, 8));
    }

    float float32() {
        return (float) Writer.FLOAT.get(octets, take(4, 4));
    }

    double float64() {
        return (double) Writer.DOUBLE.get(octets, take(8, 8));
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
