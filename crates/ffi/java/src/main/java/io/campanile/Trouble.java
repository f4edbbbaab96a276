package io.campanile;

import com.sun.jna.Pointer;
import java.time.Duration;

/**
 * What a consumer or a supplier is told that is no event.
 *
 * @param kind which sort it is
 * @param text all of it, as a sentence
 * @param name the event's type name, where it is about one; else empty
 * @param path of a mismatch: the component in which the types differ, such as {@code stations[].name}; of what does not match over DDS, the
 *     policy; else empty
 * @param reason why, where there is more to be said
 * @param declared of a mismatch: the declared type, in IDL; else empty
 * @param came of a mismatch: the type that came, in IDL; else empty
 * @param length of a gap: how long it was; of a slow callback: how long it took; else zero
 * @param events of lost events: how many more than were told before; else 0
 * @param supplier of a mismatch: the supplier, where its events say so (those in ALMA's form); of what does not match over DDS, the writer or
 *     reader; else empty
 */
public record Trouble(
        Kind kind,
        String text,
        String name,
        String path,
        String reason,
        String declared,
        String came,
        Duration length,
        long events,
        String supplier) {
    /** Which sort of trouble it is. */
    public enum Kind {
        /** The service cannot be reached; the consumer goes on trying. */
        UNREACHABLE,
        /** The service answers again. */
        REACHABLE,
        /** The subscription was gone and is made anew: events between are missing. */
        GAP,
        /** Another type came than the one that is declared. Told once for each; its events are not handed over. */
        MISMATCH,
        /** An event was not handed over, since it is no value of its type. */
        UNREADABLE,
        /** A callback has thrown something. The event counts as handed over. */
        CALLBACK,
        /** A callback took long. Meanwhile events wait. */
        SLOW,
        /** Events did not come, over DDS. */
        LOST,
        /** The filter asks for a name that no declared type has. */
        UNKNOWN_NAME,
        /** A writer or reader does not match, over DDS: none of its events come, or it gets nothing. */
        INCOMPATIBLE,
        /** Something else: the text says it. */
        OTHER
    }

    static Trouble of(Pointer told) {
        int code = told.getInt(0);
        var kinds = Kind.values();
        Kind kind = code >= 1 && code < kinds.length ? kinds[code - 1] : Kind.OTHER;
        var texts = new String[6];
        for (int place = 0; place < texts.length; place++) {
            texts[place] = told.getPointer(8L * (place + 1)).getString(0, "UTF-8");
        }
        Duration length = Duration.ofMillis(told.getLong(56));
        return new Trouble(kind, texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], length, told.getLong(64), told.getPointer(72).getString(0, "UTF-8"));
    }
}
