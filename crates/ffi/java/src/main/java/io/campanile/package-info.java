/**
 * Campanile: events as records, published and received in one line.
 *
 * <pre>{@code
 * record Wind(double speed, double direction) {}
 *
 * try (var consumer = EventConsumer.of("Weather").on(Wind.class, wind -> System.out.println(wind)).ready();
 *         var supplier = EventSupplier.of("Weather")) {
 *     supplier.publish(new Wind(11.5, 270));
 * }
 * }</pre>
 *
 * <p>What components of records can be is said by {@link io.campanile.EventType}.
 */
package io.campanile;
