package io.campanile;

import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.lang.ref.Cleaner;

/** Where events go, and how. One thread at a time uses one; suppliers and consumers copy it. */
public final class Settings {
    static final Cleaner CLEANER = Cleaner.create();

    final Pointer pointer;

    private Settings(Pointer pointer) {
        this.pointer = pointer;
        CLEANER.register(this, () -> Library.campanile_settings_free(pointer));
    }

    /**
     * The settings of the environment ({@code CAMPANILE_SERVER}, {@code CAMPANILE_TRANSPORT}, {@code CAMPANILE_CONTEXT}), the saved
     * context, and defaults.
     *
     * @return the settings
     */
    public static Settings load() {
        var made = new PointerByReference();
        Library.check(Library.campanile_settings_load(made));
        return new Settings(made.getValue());
    }

    /**
     * The settings of a saved context, whatever the environment says.
     *
     * @param name the context's name
     * @return the settings
     */
    public static Settings ofContext(String name) {
        var made = new PointerByReference();
        Library.check(Library.campanile_settings_of_context(Library.text(name, "name"), made));
        return new Settings(made.getValue());
    }

    /**
     * Sets one of them, by its name in {@code contexts.toml}: {@code name}, {@code server}, {@code transport}, {@code event_form},
     * {@code naming}, {@code naming_domain}, {@code event_domain}, {@code wait_for_service_ms}, {@code wait_for_restart_ms},
     * {@code shared_thread}, {@code tls.ca}, {@code tls.certificate}, {@code tls.key}, {@code dds.domains.NAME} and others of {@code dds}.
     *
     * @param key its name
     * @param value its value
     * @return this
     */
    public Settings set(String key, String value) {
        Library.check(Library.campanile_settings_set(pointer, Library.text(key, "key"), Library.text(value, "value")));
        return this;
    }
}
