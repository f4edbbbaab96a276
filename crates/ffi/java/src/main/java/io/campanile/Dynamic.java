package io.campanile;

/**
 * An event of a type that is not known to the program.
 *
 * @param domain the domain of its type; empty for an event that came as an Any
 * @param name the name of its type
 * @param json its value: {@code {"speed":11.5,"direction":270.0}}
 */
public record Dynamic(String domain, String name, String json) {}
