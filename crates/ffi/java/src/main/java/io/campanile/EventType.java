package io.campanile;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Says of a record or an enum how its type is called where it travels. Without it, as the class is.
 *
 * <p>Components of records can be of these types:
 *
 * <table>
 * <caption>Java and IDL</caption>
 * <tr><th>Java</th><th>IDL</th></tr>
 * <tr><td>{@code boolean}, {@code byte}, {@code short}, {@code int}, {@code long}, {@code float}, {@code double}</td>
 *   <td>{@code boolean}, {@code octet}, {@code short}, {@code long}, {@code long long}, {@code float}, {@code double}</td></tr>
 * <tr><td>{@link Unsigned @Unsigned} {@code short}, {@code int}, {@code long}</td>
 *   <td>{@code unsigned short}, {@code unsigned long}, {@code unsigned long long}</td></tr>
 * <tr><td>{@code char}, {@link String}</td><td>{@code string<4>}, {@code string}</td></tr>
 * <tr><td>{@code List<T>}, {@code T[]} (also {@code double[]} and so on)</td><td>{@code sequence<T>}</td></tr>
 * <tr><td>{@link Length @Length(3)} {@code T[]} or {@code List<T>}</td><td>{@code T[3]}</td></tr>
 * <tr><td>{@code Optional<T>}</td><td>{@code sequence<T, 1>}</td></tr>
 * <tr><td>{@link java.time.Instant}</td><td>{@code TimeBase::TimeT}: 100 ns since 15 October 1582</td></tr>
 * <tr><td>{@link java.time.Duration}</td><td>100 ns in an {@code unsigned long long}</td></tr>
 * <tr><td>records, enums</td><td>{@code struct}, {@code enum}</td></tr>
 * </table>
 *
 * <p>Numbers may be boxed within lists and optionals. Nothing may be null.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface EventType {
    /**
     * The type's name.
     *
     * @return the name; empty for the class's
     */
    String name() default "";

    /**
     * The module in which an IDL would have it, such as {@code obs::weather}.
     *
     * @return the module; empty for none
     */
    String module() default "";

    /**
     * What stands in front of that, as {@code #pragma prefix} says in the IDL, such as {@code alma}.
     *
     * @return the prefix; empty for none
     */
    String prefix() default "";

    /**
     * The domain of its events.
     *
     * @return the domain; empty for what the settings say
     */
    String domain() default "";
}
