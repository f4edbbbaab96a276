package io.campanile;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Has a {@code short}, {@code int} or {@code long} travel as an unsigned number; Java's {@code Integer.toUnsignedLong} and its like read
 * it.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.RECORD_COMPONENT, ElementType.TYPE_USE})
public @interface Unsigned {}
