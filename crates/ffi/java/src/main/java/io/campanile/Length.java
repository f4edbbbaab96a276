package io.campanile;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Has an array or a list travel as one of that length: {@code T[3]} in IDL. Others are no value. Of arrays within arrays it says the
 * outer's.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.RECORD_COMPONENT, ElementType.TYPE_USE})
public @interface Length {
    /**
     * How many.
     *
     * @return how many elements
     */
    int value();
}
