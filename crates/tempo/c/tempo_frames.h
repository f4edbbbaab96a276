/* Tempo's frames in C99 (C++ reads it too), read and written as docs/tempo.md has them. tempo.h, the end point, includes it; by itself it
 * is for who has none, such as a gateway, or a tool that looks at what passes. Nothing is allocated, and nothing is global. */
#ifndef TEMPO_FRAMES_H
#define TEMPO_FRAMES_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TEMPO_MAGIC = 0x54, TEMPO_VERSION = 1, TEMPO_HEADER = 32, TEMPO_PAYLOAD = 65475, TEMPO_LARGEST = 1 << 24, TEMPO_PORT = 2811 };
enum tempo_kind { TEMPO_ANNOUNCEMENT = 1, TEMPO_DATA, TEMPO_PROBE, TEMPO_ECHO, TEMPO_REPORT, TEMPO_BYE, TEMPO_NAME };
enum tempo_flag { TEMPO_FRAGMENT = 1, TEMPO_BY_BROKER = 2, TEMPO_TYPED = 1 << 2, TEMPO_STRUCTURED = 2 << 2, TEMPO_CONTENT = 3 << 2 };
enum tempo_role { TEMPO_PUBLISHER = 1, TEMPO_SUBSCRIBER };
enum tempo_family { TEMPO_NOWHERE = 0, TEMPO_IPV4 = 4, TEMPO_IPV6 = 6 };
enum tempo_verdict {
    TEMPO_GOOD, TEMPO_INCOMPLETE, TEMPO_BAD_MAGIC, TEMPO_BAD_VERSION, TEMPO_BAD_LENGTH, TEMPO_BAD_SESSION, TEMPO_BAD_KIND, TEMPO_BAD_PAYLOAD
};

/* Structs have the fields of the wire in its order, and no gaps. */
struct tempo_announcement {
    uint64_t given, returned;
    uint32_t rate, highest_rate, deadline_us, end_points, largest;
    uint16_t period_ms;
    uint8_t role, name_octets;
};
struct tempo_fragment { uint32_t total, at; };
struct tempo_probe {
    uint64_t sent;
    uint32_t prober, topic, number;
    uint16_t port;
    uint8_t family, hops, addr[16];
    uint32_t echoed_by, reserved;
};
struct tempo_report { uint64_t received, lost; uint32_t rate, end_points; };
struct tempo_frame {
    uint8_t magic, version, kind, flags;
    uint32_t session, topic, sequence;
    uint64_t sent;
    int16_t priority;
    uint16_t reserved;
    uint32_t length;
    union {
        struct tempo_announcement announcement;
        struct tempo_fragment fragment; /* of data with that flag */
        struct tempo_probe probe;       /* and echo */
        struct tempo_report report;
        uint8_t bye;                    /* the role */
    } as;
    const uint8_t *octets; /* a name (of an announcement's topic, of an end point), not terminated; the message of data */
    size_t n;              /* octets of that */
};
typedef char tempo_has_no_gaps[sizeof(struct tempo_announcement) == 40 && sizeof(struct tempo_probe) == 48
    && sizeof(struct tempo_report) == 24 && offsetof(struct tempo_frame, as) == TEMPO_HEADER ? 1 : -1];
#define TEMPO_HEADER_SIZES "11114448224"
static inline const char *tempo_sizes(const struct tempo_frame *f) { /* of what all payloads of the kind have */
    return f->kind == TEMPO_ANNOUNCEMENT ? "8844444211" : f->kind == TEMPO_DATA ? (f->flags & TEMPO_FRAGMENT ? "44" : "")
        : f->kind == TEMPO_PROBE || f->kind == TEMPO_ECHO ? "8444211111111111111111144" : f->kind == TEMPO_REPORT ? "8844" : f->kind == TEMPO_BYE ? "1" : "";
}
/* Copies numbers of so many octets each, little-endian there, the machine's here; either way. Says how many octets they are. */
static inline size_t tempo_copy(void *to, const void *from, const char *sizes) {
    const uint16_t one = 1;
    const int is_little = *(const uint8_t *)&one;
    size_t at = 0;
    for (size_t n; *sizes != 0; sizes++, at += n) {
        n = (size_t)(*sizes - '0');
        for (size_t i = 0; i < n; i++) ((uint8_t *)to)[at + i] = ((const uint8_t *)from)[at + (is_little ? i : n - 1 - i)];
    }
    return at;
}
/* Whether a topic or an end point can have this name: 1 to 255 octets of UTF-8 without control characters (U+0000 to 1F, 7F to 9F). */
static inline int tempo_is_name(const uint8_t *name, size_t n) {
    static const uint32_t least[] = { 0x20, 0xa0, 0x800, 0x10000 }; /* characters with so many further octets */
    uint32_t c = 0, further = 0, missing = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t octet = name[i];
        if (octet >= 0xf8 || ((octet & 0xc0) == 0x80) != (missing > 0)) return 0;
        if (missing > 0) c = c << 6 | (octet & 0x3f), missing--;
        else further = missing = octet >= 0xf0 ? 3 : octet >= 0xe0 ? 2 : octet >= 0xc0, c = missing == 0 ? octet : octet & 0x3fu >> missing;
        if (missing == 0 && (c < least[further] || c == 0x7f || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)) return 0;
    }
    return n >= 1 && n <= 255 && missing == 0;
}
static inline int tempo_is_payload(struct tempo_frame *f) {
    struct tempo_announcement *const a = &f->as.announcement;
    struct tempo_probe *const p = &f->as.probe;
    const uint32_t total = f->as.fragment.total, at = f->as.fragment.at;
    if (f->kind == TEMPO_DATA) {
        if ((f->flags & TEMPO_CONTENT) == TEMPO_CONTENT) return 0;
        return !(f->flags & TEMPO_FRAGMENT) || (f->n > 0 && total <= TEMPO_LARGEST && at < total && f->n <= total - at);
    } else if (f->kind == TEMPO_NAME) {
        return tempo_is_name(f->octets, f->n);
    } else if (f->kind == TEMPO_ANNOUNCEMENT) {
        a->period_ms = a->period_ms < 10 ? 10 : a->period_ms > 60000 ? 60000 : a->period_ms;
        return (a->role == TEMPO_PUBLISHER || a->role == TEMPO_SUBSCRIBER) && a->name_octets == f->n && tempo_is_name(f->octets, f->n);
    } else if (f->kind == TEMPO_PROBE || f->kind == TEMPO_ECHO) {
        if (p->family == TEMPO_NOWHERE) p->port = 0;
        if (p->family < TEMPO_IPV6) memset(p->addr + p->family, 0, 16u - p->family); /* of none and of four octets, the rest */
        p->reserved = 0;
        return f->n == 0 && (p->family == TEMPO_NOWHERE || p->family == TEMPO_IPV4 || p->family == TEMPO_IPV6);
    }
    return f->n == 0 && (f->kind == TEMPO_REPORT || f->as.bye == TEMPO_PUBLISHER || f->as.bye == TEMPO_SUBSCRIBER);
}
/* Reads the first frame, which then points into `bytes`. `octets`: how many it has (known of TEMPO_GOOD, _BAD_KIND and _BAD_PAYLOAD);
 * of TEMPO_INCOMPLETE: how many are missing before more can be said. */
static inline enum tempo_verdict tempo_read(struct tempo_frame *f, const uint8_t *bytes, size_t n, size_t *octets) {
    size_t fixed = 0;
    memset(f, 0, sizeof *f), *octets = TEMPO_HEADER - n;
    if (n > 0 && bytes[0] != TEMPO_MAGIC) return TEMPO_BAD_MAGIC; /* as early as it can be told */
    if (n > 1 && bytes[1] != TEMPO_VERSION) return TEMPO_BAD_VERSION;
    if (n < TEMPO_HEADER) return TEMPO_INCOMPLETE;
    tempo_copy(f, bytes, TEMPO_HEADER_SIZES), *octets = TEMPO_HEADER + f->length;
    if (f->length > TEMPO_PAYLOAD) return TEMPO_BAD_LENGTH;
    if (n < *octets) return *octets -= n, TEMPO_INCOMPLETE;
    if (f->session == 0) return TEMPO_BAD_SESSION;
    if (f->kind < TEMPO_ANNOUNCEMENT || f->kind > TEMPO_NAME) return TEMPO_BAD_KIND;
    f->flags = (uint8_t)(f->flags & (f->kind == TEMPO_DATA ? TEMPO_CONTENT | TEMPO_FRAGMENT | TEMPO_BY_BROKER : TEMPO_BY_BROKER));
    for (const char *size = tempo_sizes(f); *size != 0; size++) fixed += (size_t)(*size - '0');
    if (f->length < fixed) return TEMPO_BAD_PAYLOAD;
    tempo_copy(&f->as, bytes + TEMPO_HEADER, tempo_sizes(f));
    f->octets = bytes + TEMPO_HEADER + fixed, f->n = f->length - fixed;
    return tempo_is_payload(f) ? TEMPO_GOOD : TEMPO_BAD_PAYLOAD;
}
/* Writes a frame (magic, version and lengths are filled in), and says how many octets it has; 0 if it is larger than `room`, or than a
 * frame can be, or lacks its name. */
static inline size_t tempo_write(struct tempo_frame *f, uint8_t *out, size_t room) {
    uint8_t fixed[48];
    if ((f->kind == TEMPO_ANNOUNCEMENT || f->kind == TEMPO_NAME) && (f->n < 1 || f->n > 255)) return 0;
    if (f->kind == TEMPO_ANNOUNCEMENT) f->as.announcement.name_octets = (uint8_t)f->n;
    else if (f->kind != TEMPO_DATA && f->kind != TEMPO_NAME) f->n = 0;
    const size_t n = tempo_copy(fixed, &f->as, tempo_sizes(f));
    if (f->n > TEMPO_PAYLOAD - n || room < TEMPO_HEADER + n + f->n) return 0;
    f->magic = TEMPO_MAGIC, f->version = TEMPO_VERSION, f->reserved = 0, f->length = (uint32_t)(n + f->n);
    tempo_copy(out, f, TEMPO_HEADER_SIZES), memcpy(out + TEMPO_HEADER, fixed, n);
    if (f->n > 0) memcpy(out + TEMPO_HEADER + n, f->octets, f->n);
    return TEMPO_HEADER + n + f->n;
}
#endif
