package campanile.peer;

import java.nio.charset.StandardCharsets;

/** SplitMix64: short enough to be written alike in every language. */
final class Random64 {
    private long state;

    Random64(String shape, int index, int source) {
        long hash = 0xcbf29ce484222325L;
        for (byte b : shape.getBytes(StandardCharsets.US_ASCII)) {
            hash = (hash ^ (b & 0xff)) * 0x100000001b3L;
        }
        state = hash ^ ((source & 0xffffffffL) << 32) ^ (index & 0xffffffffL);
    }

    long next() {
        state += 0x9e3779b97f4a7c15L;
        long z = state;
        z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
        z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
        return z ^ (z >>> 31);
    }
}
