/* Types for Cyclone DDS: made at run time from what the Rust side describes, and described to it as they are discovered. */
#include <stdlib.h>
#include <string.h>

#include "shim.h"
#include <dds/ddsi/ddsi_typelib.h>
#include <dds/ddsi/ddsi_typewrap.h>
#include <dds/ddsi/ddsi_xt_typeinfo.h>

struct campanile_dds_type {
    dds_dynamic_type_t dynamic;
    dds_dynamic_type_kind_t primitive; /* or DDS_DYNAMIC_NONE; of these `dynamic` is nothing */
};

/* Takes over `dynamic`; frees it if there is no memory or it is none. */
static campanile_dds_type *wrapped(dds_dynamic_type_t dynamic, int32_t *error)
{
    if (dynamic.ret != DDS_RETCODE_OK) {
        *error = dynamic.ret;
        return NULL;
    }
    campanile_dds_type *type = malloc(sizeof *type);
    if (type == NULL) {
        dds_dynamic_type_unref(&dynamic);
        *error = DDS_RETCODE_OUT_OF_RESOURCES;
        return NULL;
    }
    type->dynamic = dynamic;
    type->primitive = DDS_DYNAMIC_NONE;
    return type;
}

/* The type becomes part of another, which from then on owns the reference. */
static dds_dynamic_type_spec_t consumed(campanile_dds_type *type)
{
    dds_dynamic_type_spec_t spec = type->primitive == DDS_DYNAMIC_NONE ? DDS_DYNAMIC_TYPE_SPEC(type->dynamic) : DDS_DYNAMIC_TYPE_SPEC_PRIM(type->primitive);
    free(type);
    return spec;
}

campanile_dds_type *campanile_dds_type_primitive(uint32_t kind)
{
    campanile_dds_type *type = calloc(1, sizeof *type);
    if (type != NULL)
        type->primitive = (dds_dynamic_type_kind_t)kind;
    return type;
}

campanile_dds_type *campanile_dds_type_string(dds_entity_t participant, int wide, uint32_t bound, int32_t *error)
{
    dds_dynamic_type_descriptor_t descriptor = {.kind = wide ? DDS_DYNAMIC_STRING16 : DDS_DYNAMIC_STRING8};
    descriptor.num_bounds = bound != 0;
    descriptor.bounds = &bound;
    return wrapped(dds_dynamic_type_create(participant, descriptor), error);
}

campanile_dds_type *campanile_dds_type_enumeration(dds_entity_t participant, const char *name, int32_t *error)
{
    return wrapped(dds_dynamic_type_create(participant, (dds_dynamic_type_descriptor_t){.kind = DDS_DYNAMIC_ENUMERATION, .name = name}), error);
}

int32_t campanile_dds_type_add_literal(campanile_dds_type *type, const char *name, int32_t value)
{
    return dds_dynamic_type_add_enum_literal(&type->dynamic, name, DDS_DYNAMIC_ENUM_LITERAL_VALUE(value), false);
}

campanile_dds_type *campanile_dds_type_alias(dds_entity_t participant, const char *name, campanile_dds_type *original, int32_t *error)
{
    dds_dynamic_type_descriptor_t descriptor = {.kind = DDS_DYNAMIC_ALIAS, .name = name, .base_type = consumed(original)};
    return wrapped(dds_dynamic_type_create(participant, descriptor), error);
}

campanile_dds_type *campanile_dds_type_sequence(dds_entity_t participant, const char *name, campanile_dds_type *element, uint32_t bound, int32_t *error)
{
    dds_dynamic_type_descriptor_t descriptor = {.kind = DDS_DYNAMIC_SEQUENCE, .name = name, .element_type = consumed(element)};
    descriptor.num_bounds = bound != 0;
    descriptor.bounds = &bound;
    return wrapped(dds_dynamic_type_create(participant, descriptor), error);
}

campanile_dds_type *campanile_dds_type_array(dds_entity_t participant, const char *name, campanile_dds_type *element, uint32_t dimensions, const uint32_t *lengths, int32_t *error)
{
    dds_dynamic_type_descriptor_t descriptor = {.kind = DDS_DYNAMIC_ARRAY, .name = name, .element_type = consumed(element)};
    descriptor.num_bounds = dimensions;
    descriptor.bounds = lengths;
    return wrapped(dds_dynamic_type_create(participant, descriptor), error);
}

campanile_dds_type *campanile_dds_type_structure(dds_entity_t participant, const char *name, int32_t *error)
{
    campanile_dds_type *type = wrapped(dds_dynamic_type_create(participant, (dds_dynamic_type_descriptor_t){.kind = DDS_DYNAMIC_STRUCTURE, .name = name}), error);
    if (type != NULL)
        *error = dds_dynamic_type_set_extensibility(&type->dynamic, DDS_DYNAMIC_TYPE_EXT_FINAL);
    return type;
}

campanile_dds_type *campanile_dds_type_union(dds_entity_t participant, const char *name, campanile_dds_type *discriminator, int32_t *error)
{
    dds_dynamic_type_descriptor_t descriptor = {.kind = DDS_DYNAMIC_UNION, .name = name, .discriminator_type = consumed(discriminator)};
    campanile_dds_type *type = wrapped(dds_dynamic_type_create(participant, descriptor), error);
    if (type != NULL)
        *error = dds_dynamic_type_set_extensibility(&type->dynamic, DDS_DYNAMIC_TYPE_EXT_FINAL);
    return type;
}

int32_t campanile_dds_type_add_member(campanile_dds_type *type, const char *name, campanile_dds_type *member)
{
    dds_dynamic_type_spec_t spec = consumed(member);
    return dds_dynamic_type_add_member(&type->dynamic, DDS_DYNAMIC_MEMBER_(spec, name, DDS_DYNAMIC_MEMBER_ID_AUTO, DDS_DYNAMIC_MEMBER_INDEX_END));
}

int32_t campanile_dds_type_add_case(campanile_dds_type *type, const char *name, campanile_dds_type *member, uint32_t count, const int32_t *labels, int is_default)
{
    dds_dynamic_type_spec_t spec = consumed(member);
    int32_t *own = NULL;
    if (count > 0) {
        if ((own = malloc(count * sizeof *own)) == NULL)
            return DDS_RETCODE_OUT_OF_RESOURCES;
        memcpy(own, labels, count * sizeof *own);
    }
    int32_t result = dds_dynamic_type_add_member(&type->dynamic, DDS_DYNAMIC_UNION_MEMBER_(spec, name, DDS_DYNAMIC_MEMBER_ID_AUTO, DDS_DYNAMIC_MEMBER_INDEX_END, count, own, is_default != 0));
    free(own);
    return result;
}

void campanile_dds_type_free(campanile_dds_type *type)
{
    if (type->primitive == DDS_DYNAMIC_NONE)
        dds_dynamic_type_unref(&type->dynamic);
    free(type);
}

/* A topic of the type, which is left to the caller. Where it is not told, readers and writers match by the type's name alone. */
int32_t campanile_dds_topic_create(dds_entity_t participant, const char *name, campanile_dds_type *type, int is_told)
{
    dds_typeinfo_t *information = NULL;
    int32_t result = dds_dynamic_type_register(&type->dynamic, &information);
    if (result != DDS_RETCODE_OK)
        return result;
    dds_topic_descriptor_t *descriptor = NULL;
    result = dds_create_topic_descriptor(DDS_FIND_SCOPE_LOCAL_DOMAIN, participant, information, 0, &descriptor);
    dds_free_typeinfo(information);
    if (result != DDS_RETCODE_OK)
        return result;
    const dds_topic_descriptor_t untold = {
        .m_size = descriptor->m_size,
        .m_align = descriptor->m_align,
        .m_flagset = descriptor->m_flagset & ~DDS_TOPIC_XTYPES_METADATA,
        .m_nkeys = descriptor->m_nkeys,
        .m_typename = descriptor->m_typename,
        .m_keys = descriptor->m_keys,
        .m_nops = descriptor->m_nops,
        .m_ops = descriptor->m_ops,
        .m_meta = descriptor->m_meta,
        .restrict_data_representation = descriptor->restrict_data_representation,
    };
    result = dds_create_topic(participant, is_told ? descriptor : &untold, name, NULL, NULL);
    dds_delete_topic_descriptor(descriptor);
    return result;
}

/* ---- Types that were discovered, written down: see `discovered.rs` for the grammar. ---- */

enum { NODES_MAX = 4096, DEPTH_MAX = 32, BYTES_MAX = 1 << 20 };

struct scribe {
    dds_entity_t participant;
    dds_time_t deadline;
    uint8_t *bytes;
    size_t length, capacity;
    uint32_t nodes;
    int32_t error;
};

static void put(struct scribe *scribe, const void *bytes, size_t length)
{
    if (scribe->error != DDS_RETCODE_OK || length == 0)
        return;
    if (length > BYTES_MAX || scribe->length + length > BYTES_MAX) {
        scribe->error = DDS_RETCODE_OUT_OF_RESOURCES;
        return;
    }
    if (scribe->length + length > scribe->capacity) {
        size_t capacity = scribe->capacity == 0 ? 1024 : scribe->capacity;
        while (capacity < scribe->length + length)
            capacity *= 2;
        uint8_t *grown = realloc(scribe->bytes, capacity);
        if (grown == NULL) {
            scribe->error = DDS_RETCODE_OUT_OF_RESOURCES;
            return;
        }
        scribe->bytes = grown;
        scribe->capacity = capacity;
    }
    memcpy(scribe->bytes + scribe->length, bytes, length);
    scribe->length += length;
}

static void put_octet(struct scribe *scribe, uint8_t value) { put(scribe, &value, 1); }
static void put_number(struct scribe *scribe, uint32_t value) { put(scribe, &value, 4); }

/* Names are arrays of 257 octets in a type object. */
static void put_name(struct scribe *scribe, const char *name)
{
    const char *end = memchr(name, 0, 256);
    size_t length = end == NULL ? 256 : (size_t)(end - name);
    put_number(scribe, (uint32_t)length);
    put(scribe, name, length);
}

static void write_identified(struct scribe *scribe, const DDS_XTypes_TypeIdentifier *id, uint32_t depth);

static void write_structure(struct scribe *scribe, const DDS_XTypes_CompleteStructType *type, uint32_t depth)
{
    put_name(scribe, type->header.detail.type_name);
    put_number(scribe, type->struct_flags);
    int has_base = type->header.base_type._d != DDS_XTypes_TK_NONE;
    put_octet(scribe, (uint8_t)has_base);
    if (has_base)
        write_identified(scribe, &type->header.base_type, depth);
    put_number(scribe, type->member_seq._length);
    for (uint32_t i = 0; i < type->member_seq._length && scribe->error == DDS_RETCODE_OK; i++) {
        const DDS_XTypes_CompleteStructMember *member = &type->member_seq._buffer[i];
        put_name(scribe, member->detail.name);
        put_number(scribe, member->common.member_flags);
        write_identified(scribe, &member->common.member_type_id, depth);
    }
}

static void write_union(struct scribe *scribe, const DDS_XTypes_CompleteUnionType *type, uint32_t depth)
{
    put_name(scribe, type->header.detail.type_name);
    put_number(scribe, type->union_flags);
    write_identified(scribe, &type->discriminator.common.type_id, depth);
    put_number(scribe, type->member_seq._length);
    for (uint32_t i = 0; i < type->member_seq._length && scribe->error == DDS_RETCODE_OK; i++) {
        const DDS_XTypes_CompleteUnionMember *member = &type->member_seq._buffer[i];
        put_name(scribe, member->detail.name);
        put_number(scribe, member->common.member_flags);
        put_number(scribe, member->common.label_seq._length);
        put(scribe, member->common.label_seq._buffer, member->common.label_seq._length * sizeof(int32_t));
        write_identified(scribe, &member->common.type_id, depth);
    }
}

static void write_enumeration(struct scribe *scribe, const DDS_XTypes_CompleteEnumeratedType *type)
{
    put_name(scribe, type->header.detail.type_name);
    put_number(scribe, type->header.common.bit_bound);
    put_number(scribe, type->literal_seq._length);
    for (uint32_t i = 0; i < type->literal_seq._length && scribe->error == DDS_RETCODE_OK; i++) {
        put_name(scribe, type->literal_seq._buffer[i].detail.name);
        put_number(scribe, (uint32_t)type->literal_seq._buffer[i].common.value);
    }
}

static void write_object(struct scribe *scribe, const DDS_XTypes_CompleteTypeObject *object, uint32_t depth)
{
    put_octet(scribe, object->_d);
    switch (object->_d) {
    case DDS_XTypes_TK_ALIAS:
        put_name(scribe, object->_u.alias_type.header.detail.type_name);
        write_identified(scribe, &object->_u.alias_type.body.common.related_type, depth);
        break;
    case DDS_XTypes_TK_ENUM:
        write_enumeration(scribe, &object->_u.enumerated_type);
        break;
    case DDS_XTypes_TK_STRUCTURE:
        write_structure(scribe, &object->_u.struct_type, depth);
        break;
    case DDS_XTypes_TK_UNION:
        write_union(scribe, &object->_u.union_type, depth);
        break;
    case DDS_XTypes_TK_SEQUENCE:
        put_number(scribe, object->_u.sequence_type.header.common.bound);
        write_identified(scribe, &object->_u.sequence_type.element.common.type, depth);
        break;
    case DDS_XTypes_TK_ARRAY: {
        const DDS_XTypes_LBoundSeq *bounds = &object->_u.array_type.header.common.bound_seq;
        put_number(scribe, bounds->_length);
        put(scribe, bounds->_buffer, bounds->_length * sizeof(uint32_t));
        write_identified(scribe, &object->_u.array_type.element.common.type, depth);
        break;
    }
    default: /* The kind alone: the reader says that it has no use for it. */
        break;
    }
}

static void write_hashed(struct scribe *scribe, const DDS_XTypes_TypeIdentifier *id, uint32_t depth)
{
    dds_time_t now = dds_time();
    dds_typeobj_t *object = NULL;
    dds_duration_t timeout = now < scribe->deadline ? scribe->deadline - now : 0;
    int32_t result = dds_get_typeobj(scribe->participant, (const dds_typeid_t *)id, timeout, &object);
    if (result != DDS_RETCODE_OK || object == NULL) {
        scribe->error = result != DDS_RETCODE_OK ? result : DDS_RETCODE_TIMEOUT;
        return;
    }
    const DDS_XTypes_TypeObject *type = (const DDS_XTypes_TypeObject *)object;
    if (type->_d == DDS_XTypes_EK_COMPLETE)
        write_object(scribe, &type->_u.complete, depth);
    else /* A minimal type has no names. */
        scribe->error = DDS_RETCODE_UNSUPPORTED;
    dds_free_typeobj(object);
}

static void write_identified(struct scribe *scribe, const DDS_XTypes_TypeIdentifier *id, uint32_t depth)
{
    if (scribe->error != DDS_RETCODE_OK)
        return;
    if (id == NULL || depth >= DEPTH_MAX || ++scribe->nodes > NODES_MAX) {
        scribe->error = DDS_RETCODE_OUT_OF_RESOURCES;
        return;
    }
    switch (id->_d) {
    case DDS_XTypes_EK_COMPLETE:
    case DDS_XTypes_EK_MINIMAL:
        write_hashed(scribe, id, depth + 1);
        break;
    case DDS_XTypes_TI_STRING8_SMALL:
    case DDS_XTypes_TI_STRING16_SMALL:
        put_octet(scribe, id->_d == DDS_XTypes_TI_STRING8_SMALL ? DDS_XTypes_TK_STRING8 : DDS_XTypes_TK_STRING16);
        put_number(scribe, id->_u.string_sdefn.bound);
        break;
    case DDS_XTypes_TI_STRING8_LARGE:
    case DDS_XTypes_TI_STRING16_LARGE:
        put_octet(scribe, id->_d == DDS_XTypes_TI_STRING8_LARGE ? DDS_XTypes_TK_STRING8 : DDS_XTypes_TK_STRING16);
        put_number(scribe, id->_u.string_ldefn.bound);
        break;
    case DDS_XTypes_TI_PLAIN_SEQUENCE_SMALL:
        put_octet(scribe, DDS_XTypes_TK_SEQUENCE);
        put_number(scribe, id->_u.seq_sdefn.bound);
        write_identified(scribe, id->_u.seq_sdefn.element_identifier, depth + 1);
        break;
    case DDS_XTypes_TI_PLAIN_SEQUENCE_LARGE:
        put_octet(scribe, DDS_XTypes_TK_SEQUENCE);
        put_number(scribe, id->_u.seq_ldefn.bound);
        write_identified(scribe, id->_u.seq_ldefn.element_identifier, depth + 1);
        break;
    case DDS_XTypes_TI_PLAIN_ARRAY_SMALL:
        put_octet(scribe, DDS_XTypes_TK_ARRAY);
        put_number(scribe, id->_u.array_sdefn.array_bound_seq._length);
        for (uint32_t i = 0; i < id->_u.array_sdefn.array_bound_seq._length; i++)
            put_number(scribe, id->_u.array_sdefn.array_bound_seq._buffer[i]);
        write_identified(scribe, id->_u.array_sdefn.element_identifier, depth + 1);
        break;
    case DDS_XTypes_TI_PLAIN_ARRAY_LARGE:
        put_octet(scribe, DDS_XTypes_TK_ARRAY);
        put_number(scribe, id->_u.array_ldefn.array_bound_seq._length);
        put(scribe, id->_u.array_ldefn.array_bound_seq._buffer, id->_u.array_ldefn.array_bound_seq._length * sizeof(uint32_t));
        write_identified(scribe, id->_u.array_ldefn.element_identifier, depth + 1);
        break;
    default: /* A primitive type's identifier is its kind. */
        put_octet(scribe, id->_d);
        break;
    }
}

int32_t campanile_dds_describe(dds_entity_t participant, const dds_typeinfo_t *information, dds_duration_t timeout, uint8_t **bytes, size_t *length)
{
    const ddsi_typeid_t *id = ddsi_typeinfo_complete_typeid(information);
    if (id == NULL || ddsi_typeid_is_none(id))
        return DDS_RETCODE_NO_DATA;
    struct scribe scribe = {.participant = participant, .deadline = dds_time() + timeout};
    write_identified(&scribe, (const DDS_XTypes_TypeIdentifier *)id, 0);
    if (scribe.error != DDS_RETCODE_OK) {
        free(scribe.bytes);
        return scribe.error;
    }
    *bytes = scribe.bytes;
    *length = scribe.length;
    return DDS_RETCODE_OK;
}

void campanile_dds_bytes_free(uint8_t *bytes) { free(bytes); }
