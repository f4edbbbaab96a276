package io.campanile;

/** Why something was not done. */
public final class CampanileException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Which sort of error it is. */
    public enum Code {
        /** The settings are wrong. */
        SETTINGS(1),
        /** The service cannot be reached, or did not answer: it may be there later. */
        UNREACHABLE(2),
        /** The service refuses. */
        REFUSED(3),
        /** The name cannot be a channel's. */
        CHANNEL_NAME(4),
        /** The type cannot be an event's. */
        TYPE(5),
        /** The value is none of its type, or cannot travel. */
        VALUE(6),
        /** The process was forked. */
        FORKED(7),
        /** The transport is not in this build. */
        NO_TRANSPORT(8),
        /** No thread could be started. */
        THREAD(9),
        /** Over DDS: readers are behind and there is no room for more. Nothing is lost; it may be tried again. */
        SLOWED(10),
        /** DDS cannot do what it was asked for. */
        DDS(11),
        /** The filter is none. */
        FILTER(12),
        /** An argument is wrong, or something is not in the state for it. */
        ARGUMENT(100),
        /** Nothing came in time. */
        TIMEOUT(101),
        /** It is closed. */
        CLOSED(102),
        /** A callback has asked for what would wait for its own end. */
        FROM_CALLBACK(103),
        /** The library has a bug. */
        BUG(104),
        /** Something else. */
        OTHER(105);

        final int number;

        Code(int number) {
            this.number = number;
        }

        static Code of(int number) {
            for (Code code : values()) {
                if (code.number == number) {
                    return code;
                }
            }
            return OTHER;
        }
    }

    private final Code code;
    private final boolean wasNotCarriedOut;
    private final int column;

    CampanileException(Code code, String message, boolean wasNotCarriedOut) {
        this(code, message, wasNotCarriedOut, 0);
    }

    CampanileException(Code code, String message, boolean wasNotCarriedOut, int column) {
        super(message);
        this.code = code;
        this.wasNotCarriedOut = wasNotCarriedOut;
        this.column = column;
    }

    static CampanileException value(String reason) {
        return new CampanileException(Code.VALUE, reason, true);
    }

    static CampanileException type(String reason) {
        return new CampanileException(Code.TYPE, reason, true);
    }

    /**
     * Which sort of error it is.
     *
     * @return the sort
     */
    public Code code() {
        return code;
    }

    /**
     * Of a filter that is none ({@link Code#FILTER}): where, in characters from 1 on.
     *
     * @return the column; 0 for other errors
     */
    public int column() {
        return column;
    }

    /**
     * Whether an event that was not published can be published again without being there twice.
     *
     * @return whether it was certainly not published
     */
    public boolean wasNotCarriedOut() {
        return wasNotCarriedOut;
    }
}
