package io.campanile;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.AnnotatedArrayType;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.AnnotatedParameterizedType;
import java.lang.reflect.AnnotatedType;
import java.lang.reflect.Array;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** How values of a type are written and read, and what it is in IDL. Made once for a type, by reflection. */
abstract class Codec {
    /** Octets of the shortest value; not less than 1. */
    int octetsMin() {
        return 1;
    }

    /** The type within another. */
    abstract String idl(Idl idl);

    /** A member of the type. */
    String member(Idl idl, String name) {
        return idl(idl) + " " + name;
    }

    abstract void write(Writer writer, Object value);

    abstract Object read(Reader reader);

    /** What a value must not be, told with the member's name. */
    static CampanileException within(String name, RuntimeException error) {
        String reason = error instanceof NullPointerException ? "it is null" : error.getMessage();
        return CampanileException.value(name + ": " + reason);
    }

    /** The definitions that a type needs, in order, each once. */
    static final class Idl {
        private final Map<String, String> defined = new LinkedHashMap<>();
        private final StringBuilder text = new StringBuilder();
        private int fresh;

        /** Adds a definition, unless one of that name is there or is being made. */
        void define(String name, java.util.function.Supplier<String> make) {
            if (defined.putIfAbsent(name, "") == null) {
                String made = make.get();
                text.append(made).append('\n');
            }
        }

        String fresh() {
            return "campanile_array_" + ++fresh;
        }

        @Override
        public String toString() {
            return text.toString();
        }

        /** A name as IDL has it, whatever words it keeps for itself. */
        static String name(String module, String name) {
            return module.isEmpty() ? "_" + name : "::_" + module.replace("::", "::_") + "::_" + name;
        }

        static String within(String prefix, String module, String text) {
            if (!prefix.isEmpty()) {
                return "#pragma prefix \"" + prefix + "\"\n" + within("", module, text) + "\n#pragma prefix \"\"";
            }
            if (module.isEmpty()) {
                return text;
            }
            String[] parts = module.split("::");
            return "module _" + String.join(" { module _", parts) + " { " + text + " };".repeat(parts.length);
        }
    }

    /** Those that know how to make codecs, and do not make one twice. A record may be within a list within itself. */
    static final class Maker {
        private final Map<Class<?>, Codec> made = new LinkedHashMap<>();

        Codec of(AnnotatedType annotated, AnnotatedElement component) {
            Type type = annotated.getType();
            Integer length = length(annotated, component);
            if (annotated instanceof AnnotatedArrayType array) {
                AnnotatedType inner = array.getAnnotatedGenericComponentType();
                Class<?> element = raw(inner.getType());
                return new Elements(of(inner, unsignedOnly(component)), length, element);
            }
            if (type instanceof ParameterizedType parameterized && annotated instanceof AnnotatedParameterizedType inner) {
                AnnotatedType argument = inner.getAnnotatedActualTypeArguments()[0];
                if (parameterized.getRawType() == List.class) {
                    return new Elements(of(argument, null), length, null);
                }
                if (parameterized.getRawType() == Optional.class) {
                    return new Perhaps(of(argument, null));
                }
            }
            if (type instanceof Class<?> plain) {
                boolean unsigned = annotated.isAnnotationPresent(Unsigned.class)
                        || component != null && component.isAnnotationPresent(Unsigned.class);
                return of(plain, unsigned);
            }
            throw CampanileException.type("events cannot have a " + type.getTypeName());
        }

        private static Integer length(AnnotatedType annotated, AnnotatedElement component) {
            Length length = annotated.getAnnotation(Length.class);
            if (length == null && component != null) {
                length = component.getAnnotation(Length.class);
            }
            return length == null ? null : length.value();
        }

        /** What is said of the component counts for its elements, too, but not its length. */
        private static AnnotatedElement unsignedOnly(AnnotatedElement component) {
            return component != null && component.isAnnotationPresent(Unsigned.class) ? Marked.class : null;
        }

        @Unsigned
        private static final class Marked {}

        private static Class<?> raw(Type type) {
            if (type instanceof Class<?> plain) {
                return plain;
            }
            if (type instanceof ParameterizedType parameterized) {
                return (Class<?>) parameterized.getRawType();
            }
            if (type instanceof java.lang.reflect.GenericArrayType array) {
                return raw(array.getGenericComponentType()).arrayType();
            }
            throw CampanileException.type("events cannot have a " + type.getTypeName());
        }

        Codec of(Class<?> type, boolean unsigned) {
            Codec plain = Plain.of(type, unsigned);
            if (plain != null) {
                return plain;
            }
            Codec known = made.get(type);
            if (known != null) {
                return known;
            }
            if (type.isEnum()) {
                Codec codec = new Labels(type);
                made.put(type, codec);
                return codec;
            }
            if (type.isRecord()) {
                var codec = new Struct(type);
                made.put(type, codec);
                codec.make(this);
                return codec;
            }
            throw CampanileException.type("events cannot have a " + type.getName() + ": components are numbers, text, enums, records, lists "
                    + "and others that EventType names");
        }
    }

    /** A record. */
    static final class Struct extends Codec {
        private static final Object[] NONE = {};

        private final Class<?> type;
        private final String prefix;
        private final String module;
        private final String name;
        private Codec[] codecs;
        private String[] names;
        private MethodHandle[] accessors;
        private MethodHandle constructor;

        Struct(Class<?> type) {
            this.type = type;
            EventType said = type.getAnnotation(EventType.class);
            prefix = said == null ? "" : said.prefix();
            module = said == null ? "" : said.module();
            name = said == null || said.name().isEmpty() ? type.getSimpleName() : said.name();
        }

        String fullName() {
            return module.isEmpty() ? name : module + "::" + name;
        }

        private void make(Maker maker) {
            RecordComponent[] components = type.getRecordComponents();
            if (components.length == 0) {
                throw CampanileException.type(type.getName() + " has no components");
            }
            codecs = new Codec[components.length];
            names = new String[components.length];
            accessors = new MethodHandle[components.length];
            var types = new Class<?>[components.length];
            try {
                MethodHandles.Lookup lookup = MethodHandles.privateLookupIn(type, MethodHandles.lookup());
                for (int place = 0; place < components.length; place++) {
                    RecordComponent component = components[place];
                    names[place] = component.getName();
                    types[place] = component.getType();
                    codecs[place] = maker.of(component.getAnnotatedType(), component);
                    accessors[place] = lookup.unreflect(component.getAccessor()).asType(MethodType.methodType(Object.class, Object.class));
                }
                constructor = lookup.findConstructor(type, MethodType.methodType(void.class, types))
                        .asType(MethodType.genericMethodType(components.length))
                        .asSpreader(Object[].class, components.length);
            } catch (ReflectiveOperationException error) {
                throw CampanileException.type(type.getName() + " cannot be looked into: " + error.getMessage());
            }
        }

        @Override
        String idl(Idl idl) {
            String full = Idl.name(module, name);
            idl.define(full, () -> {
                var text = new StringBuilder("struct _").append(name).append(" {");
                for (int place = 0; place < codecs.length; place++) {
                    text.append(' ').append(codecs[place].member(idl, "_" + names[place])).append(';');
                }
                return Idl.within(prefix, module, text.append(" };").toString());
            });
            return full;
        }

        @Override
        void write(Writer writer, Object value) {
            for (int place = 0; place < codecs.length; place++) {
                try {
                    codecs[place].write(writer, accessors[place].invokeExact(value));
                } catch (CampanileException | NullPointerException error) {
                    throw within(names[place], error);
                } catch (RuntimeException | Error error) {
                    throw error;
                } catch (Throwable error) {
                    throw CampanileException.value(names[place] + ": its accessor has thrown " + error);
                }
            }
        }

        @Override
        Object read(Reader reader) {
            Object[] values = codecs.length == 0 ? NONE : new Object[codecs.length];
            for (int place = 0; place < codecs.length; place++) {
                values[place] = codecs[place].read(reader);
            }
            try {
                return constructor.invokeExact(values);
            } catch (RuntimeException | Error error) {
                throw error;
            } catch (Throwable error) {
                throw CampanileException.value(name + ": its constructor has thrown " + error);
            }
        }
    }

    /** An enum travels as its label's place. */
    static final class Labels extends Codec {
        private final String prefix;
        private final String module;
        private final String name;
        private final Object[] labels;

        Labels(Class<?> type) {
            EventType said = type.getAnnotation(EventType.class);
            prefix = said == null ? "" : said.prefix();
            module = said == null ? "" : said.module();
            name = said == null || said.name().isEmpty() ? type.getSimpleName() : said.name();
            labels = type.getEnumConstants();
        }

        @Override
        int octetsMin() {
            return 4;
        }

        @Override
        String idl(Idl idl) {
            String full = Idl.name(module, name);
            idl.define(full, () -> {
                var all = new ArrayList<String>();
                for (Object label : labels) {
                    all.add("_" + ((Enum<?>) label).name());
                }
                return Idl.within(prefix, module, "enum _" + name + " { " + String.join(", ", all) + " };");
            });
            return full;
        }

        @Override
        void write(Writer writer, Object value) {
            writer.int32(((Enum<?>) value).ordinal());
        }

        @Override
        Object read(Reader reader) {
            int place = reader.int32();
            if (place < 0 || place >= labels.length) {
                throw CampanileException.value("there are not so many labels of " + name);
            }
            return labels[place];
        }
    }

    /** A list or an array, of any length or of one. */
    static final class Elements extends Codec {
        private final Codec element;
        private final Integer length;
        private final Class<?> array;

        Elements(Codec element, Integer length, Class<?> array) {
            this.element = element;
            this.length = length;
            this.array = array;
        }

        @Override
        int octetsMin() {
            return length == null ? 4 : 1;
        }

        @Override
        String idl(Idl idl) {
            if (length == null) {
                return "sequence<" + element.idl(idl) + ">";
            }
            String of = element.idl(idl);
            String name = idl.fresh();
            idl.define(name, () -> "typedef " + of + " " + name + "[" + length + "];");
            return name;
        }

        @Override
        String member(Idl idl, String name) {
            return length == null ? super.member(idl, name) : element.member(idl, name + "[" + length + "]");
        }

        private void writeCount(Writer writer, int count) {
            if (length == null) {
                writer.int32(count);
            } else if (count != length) {
                throw CampanileException.value("there are " + count + " elements, and have to be " + length);
            }
        }

        @Override
        void write(Writer writer, Object value) {
            if (value instanceof List<?> list) {
                writeCount(writer, list.size());
                for (Object each : list) {
                    element.write(writer, each);
                }
                return;
            }
            int count = Array.getLength(value);
            writeCount(writer, count);
            if (!(element instanceof Plain plain && plain.writeAll(writer, value, count))) {
                for (int place = 0; place < count; place++) {
                    element.write(writer, Array.get(value, place));
                }
            }
        }

        @Override
        Object read(Reader reader) {
            int count = length == null ? reader.length(element.octetsMin()) : length;
            if (array == null) {
                var list = new ArrayList<Object>(count);
                for (int place = 0; place < count; place++) {
                    list.add(element.read(reader));
                }
                return java.util.Collections.unmodifiableList(list);
            }
            Object values = Array.newInstance(array, count);
            if (!(element instanceof Plain plain && plain.readAll(reader, values, count))) {
                for (int place = 0; place < count; place++) {
                    Array.set(values, place, element.read(reader));
                }
            }
            return values;
        }
    }

    /** One value or none. */
    static final class Perhaps extends Codec {
        private final Codec element;

        Perhaps(Codec element) {
            this.element = element;
        }

        @Override
        int octetsMin() {
            return 4;
        }

        @Override
        String idl(Idl idl) {
            return "sequence<" + element.idl(idl) + ", 1>";
        }

        @Override
        void write(Writer writer, Object value) {
            var perhaps = (Optional<?>) value;
            writer.int32(perhaps.isPresent() ? 1 : 0);
            perhaps.ifPresent(each -> element.write(writer, each));
        }

        @Override
        Object read(Reader reader) {
            return reader.length(1) == 0 ? Optional.empty() : Optional.of(element.read(reader));
        }
    }

    /** What has no parts. */
    static final class Plain extends Codec {
        /** Seconds from 15 October 1582 to 1 January 1970. */
        private static final long TO_1970_S = 12_219_292_800L;
        private static final long TICKS_A_SECOND = 10_000_000;

        /** How it is written. */
        enum Sort {
            BOOLEAN("boolean", 1),
            OCTET("octet", 1),
            SHORT("short", 2),
            INT("long", 4),
            LONG("long long", 8),
            FLOAT("float", 4),
            DOUBLE("double", 8),
            CHAR("string<4>", 4),
            STRING("string", 4),
            INSTANT("TimeBase::TimeT", 8),
            DURATION("::campanile::Duration", 8);

            final String idl;
            final int octets;

            Sort(String idl, int octets) {
                this.idl = idl;
                this.octets = octets;
            }
        }

        private final Sort sort;
        private final boolean unsigned;

        private Plain(Sort sort, boolean unsigned) {
            this.sort = sort;
            this.unsigned = unsigned;
        }

        static Plain of(Class<?> type, boolean unsigned) {
            Sort sort = sort(type);
            if (unsigned && sort != Sort.SHORT && sort != Sort.INT && sort != Sort.LONG) {
                if (sort == null) {
                    return null;
                }
                throw CampanileException.type("@Unsigned is for short, int and long, and not for " + type.getSimpleName());
            }
            return sort == null ? null : new Plain(sort, unsigned);
        }

        private static Sort sort(Class<?> type) {
            if (type == boolean.class || type == Boolean.class) {
                return Sort.BOOLEAN;
            } else if (type == byte.class || type == Byte.class) {
                return Sort.OCTET;
            } else if (type == short.class || type == Short.class) {
                return Sort.SHORT;
            } else if (type == int.class || type == Integer.class) {
                return Sort.INT;
            } else if (type == long.class || type == Long.class) {
                return Sort.LONG;
            } else if (type == float.class || type == Float.class) {
                return Sort.FLOAT;
            } else if (type == double.class || type == Double.class) {
                return Sort.DOUBLE;
            } else if (type == char.class || type == Character.class) {
                return Sort.CHAR;
            } else if (type == String.class) {
                return Sort.STRING;
            } else if (type == Instant.class) {
                return Sort.INSTANT;
            } else if (type == Duration.class) {
                return Sort.DURATION;
            }
            return null;
        }

        @Override
        int octetsMin() {
            return sort.octets;
        }

        @Override
        String idl(Idl idl) {
            if (sort == Sort.DURATION) {
                idl.define(sort.idl, () -> "module campanile { typedef unsigned long long Duration; };");
            }
            return unsigned ? "unsigned " + sort.idl : sort.idl;
        }

        @Override
        void write(Writer writer, Object value) {
            switch (sort) {
                case BOOLEAN -> writer.int8((Boolean) value ? 1 : 0);
                case OCTET -> writer.int8((Byte) value);
                case SHORT -> writer.int16((Short) value);
                case INT -> writer.int32((Integer) value);
                case LONG -> writer.int64((Long) value);
                case FLOAT -> writer.float32((Float) value);
                case DOUBLE -> writer.float64((Double) value);
                case CHAR -> writer.text(value.toString());
                case STRING -> writer.text((String) value);
                case INSTANT -> writer.int64(ticks((Instant) value));
                case DURATION -> writer.int64(ticks((Duration) value));
                default -> throw new IllegalStateException();
            }
        }

        @Override
        Object read(Reader reader) {
            return switch (sort) {
                case BOOLEAN -> reader.int8() != 0;
                case OCTET -> reader.int8();
                case SHORT -> reader.int16();
                case INT -> reader.int32();
                case LONG -> reader.int64();
                case FLOAT -> reader.float32();
                case DOUBLE -> reader.float64();
                case CHAR -> reader.character();
                case STRING -> reader.text();
                case INSTANT -> instant(reader.int64());
                case DURATION -> duration(reader.int64());
            };
        }

        boolean writeAll(Writer writer, Object array, int count) {
            if (array instanceof byte[] octets) {
                writer.octets(octets);
            } else if (array instanceof double[] doubles) {
                for (double each : doubles) {
                    writer.float64(each);
                }
            } else if (array instanceof float[] floats) {
                for (float each : floats) {
                    writer.float32(each);
                }
            } else if (array instanceof int[] ints) {
                for (int each : ints) {
                    writer.int32(each);
                }
            } else if (array instanceof long[] longs) {
                for (long each : longs) {
                    writer.int64(each);
                }
            } else {
                return false;
            }
            return true;
        }

        boolean readAll(Reader reader, Object array, int count) {
            if (array instanceof byte[] octets) {
                reader.octets(octets);
            } else if (array instanceof double[] doubles) {
                for (int place = 0; place < count; place++) {
                    doubles[place] = reader.float64();
                }
            } else if (array instanceof float[] floats) {
                for (int place = 0; place < count; place++) {
                    floats[place] = reader.float32();
                }
            } else if (array instanceof int[] ints) {
                for (int place = 0; place < count; place++) {
                    ints[place] = reader.int32();
                }
            } else if (array instanceof long[] longs) {
                for (int place = 0; place < count; place++) {
                    longs[place] = reader.int64();
                }
            } else {
                return false;
            }
            return true;
        }

        /** What is finer than 100 ns is cut off; times before 1582 are 0, and those beyond what there is room for the last. */
        private static long ticks(Instant time) {
            long seconds = time.getEpochSecond() + TO_1970_S;
            if (seconds < 0) {
                return 0;
            }
            if (Long.compareUnsigned(seconds, Long.divideUnsigned(-1L, TICKS_A_SECOND)) >= 0) {
                return -1L;
            }
            return seconds * TICKS_A_SECOND + time.getNano() / 100;
        }

        private static Instant instant(long ticks) {
            long seconds = Long.divideUnsigned(ticks, TICKS_A_SECOND);
            return Instant.ofEpochSecond(seconds - TO_1970_S, Long.remainderUnsigned(ticks, TICKS_A_SECOND) * 100);
        }

        private static long ticks(Duration duration) {
            if (duration.isNegative()) {
                throw CampanileException.value("a duration is negative");
            }
            if (Long.compareUnsigned(duration.getSeconds(), Long.divideUnsigned(-1L, TICKS_A_SECOND)) >= 0) {
                return -1L;
            }
            return duration.getSeconds() * TICKS_A_SECOND + duration.getNano() / 100;
        }

        private static Duration duration(long ticks) {
            return Duration.ofSeconds(Long.divideUnsigned(ticks, TICKS_A_SECOND), Long.remainderUnsigned(ticks, TICKS_A_SECOND) * 100);
        }
    }
}
