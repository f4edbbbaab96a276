package io.campanile;

import com.sun.jna.Pointer;
import java.util.function.Consumer;

/** A handle of the library's, which is freed when it is closed and no longer used. */
final class Handle {
    /** Where it is. */
    final long address;

    private final Pointer pointer;
    private final Consumer<Pointer> free;
    private final Consumer<Pointer> end;
    private int users;
    private boolean isClosed;

    Handle(Pointer pointer, Consumer<Pointer> free) {
        this(pointer, free, it -> {});
    }

    /** Of one whose users may wait: {@code end} ends that when it is closed meanwhile, and does not wait itself. */
    Handle(Pointer pointer, Consumer<Pointer> free, Consumer<Pointer> end) {
        this.pointer = pointer;
        address = Pointer.nativeValue(pointer);
        this.free = free;
        this.end = end;
    }

    /** To be used until {@link #leave}. */
    Pointer enter() {
        synchronized (this) {
            if (!isClosed) {
                users++;
                return pointer;
            }
        }
        throw new CampanileException(CampanileException.Code.CLOSED, "it is closed", true);
    }

    void leave() {
        synchronized (this) {
            users--;
            if (!isClosed || users > 0) {
                return;
            }
        }
        free.accept(pointer);
    }

    synchronized boolean isClosed() {
        return isClosed;
    }

    void close() {
        synchronized (this) {
            if (isClosed) {
                return;
            }
            isClosed = true;
            if (users > 0) {
                end.accept(pointer);
                return;
            }
        }
        free.accept(pointer);
    }
}
