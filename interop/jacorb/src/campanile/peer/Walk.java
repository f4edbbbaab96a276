package campanile.peer;

import CampanileTest.Colour;

/**
 * Walks a value and either fills it or compares it. Each method draws the same random numbers in both cases, and in the same
 * order as its twin in C++. Comparing returns what was there, so that a caller may always assign the result.
 */
final class Walk {
    /** A field does not hold what the generator put there. */
    static final class Differs extends RuntimeException {
        Differs(String what) {
            super(what);
        }
    }

    private static final char[] WIDE = {0x61, 0xe9, 0x20ac, 0x4e2d, 0x416, 0x7a};
    private static final char[] UNICODE = {0xe9, 0x20ac, 0x4e2d, 0x416, 0x41, 0x7fe};

    private final Random64 random;
    private final boolean latin1;
    final boolean filling;

    Walk(Random64 random, boolean filling, boolean latin1) {
        this.random = random;
        this.filling = filling;
        this.latin1 = latin1;
    }

    long draw() {
        return random.next();
    }

    /** A draw below {@code n}, taken as unsigned. */
    int below(int n) {
        return (int) Long.remainderUnsigned(draw(), n);
    }

    void expect(boolean holds, String what) {
        if (!filling && !holds) {
            throw new Differs(what);
        }
    }

    byte octet(byte there, String what) {
        byte value = (byte) draw();
        expect(there == value, what);
        return value;
    }

    boolean bool(boolean there, String what) {
        boolean value = (draw() & 1) != 0;
        expect(there == value, what);
        return value;
    }

    short int16(short there, String what) {
        short value = (short) draw();
        expect(there == value, what);
        return value;
    }

    int int32(int there, String what) {
        int value = (int) draw();
        expect(there == value, what);
        return value;
    }

    long int64(long there, String what) {
        long value = draw();
        expect(there == value, what);
        return value;
    }

    char letter(char there, String what) {
        char value = (char) ('A' + below(26));
        expect(there == value, what);
        return value;
    }

    Colour colour(Colour there, String what) {
        Colour value = Colour.from_int(below(4));
        expect(there == value, what);
        return value;
    }

    double float64(double there, String what) {
        double value = anyDouble();
        expect(Double.doubleToRawLongBits(there) == Double.doubleToRawLongBits(value), what);
        return value;
    }

    float float32(float there, String what) {
        float value = (short) (draw() >>> 32) / 8.0f;
        expect(Float.floatToRawIntBits(there) == Float.floatToRawIntBits(value), what);
        return value;
    }

    private double anyDouble() {
        long r = draw();
        long kind = Long.remainderUnsigned(r, 8);
        if (kind == 0) {
            return -0.0;
        }
        if (kind == 1) {
            return Double.POSITIVE_INFINITY;
        }
        return (int) (r >>> 32) / 1024.0;
    }

    private char anyWide() {
        return WIDE[below(6)];
    }

    char wide(char there, String what) {
        char value = anyWide();
        expect(there == value, what);
        return value;
    }

    String text(String there, String value, String what) {
        expect(value.equals(there), what);
        return value;
    }

    String anyAscii(int lessThan) {
        int length = below(lessThan);
        StringBuilder made = new StringBuilder();
        for (int i = 0; i < length; ++i) {
            made.append((char) ('a' + below(26)));
        }
        return made.toString();
    }

    /** Text that both ISO 8859-1 and UTF-8 can say, or only the latter. */
    String anyText(boolean unicode) {
        int length = 1 + below(12);
        StringBuilder made = new StringBuilder();
        for (int i = 0; i < length; ++i) {
            long r = draw();
            char c = unicode
                ? UNICODE[(int) Long.remainderUnsigned(r, 6)]
                : (char) (0xa1 + Long.remainderUnsigned(r, 0x5f));
            made.append(latin1 && c > 0xff ? '?' : c);
        }
        return made.toString();
    }

    /** {@code astral} mixes in pairs of surrogates, as UTF-16 writes characters beyond 0xffff. */
    String anyWide(boolean astral) {
        int length = below(12);
        StringBuilder made = new StringBuilder();
        for (int i = 0; i < length; ++i) {
            made.append(anyWide());
            if (astral && i % 2 == 0) {
                made.append("\ud834\udd1e");
            }
        }
        return made.toString();
    }

    /** The length of what is there must be {@code value}. */
    int length(int there, int value, String what) {
        expect(there == value, what);
        return value;
    }

    byte[] octets(byte[] there, int count, String what) {
        length(there == null ? 0 : there.length, count, what);
        byte[] value = new byte[count];
        for (int i = 0; i < count; i += 8) {
            long r = draw();
            for (int j = i; j < count && j < i + 8; ++j) {
                value[j] = (byte) (r >>> (8 * (j - i)));
            }
        }
        expect(java.util.Arrays.equals(there, value), what);
        return value;
    }
}
