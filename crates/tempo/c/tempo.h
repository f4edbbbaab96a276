/* Tempo, the small protocol, for devices: its frames, its cookies and an end point, in C99 (C++ reads it too). docs/tempo.md specifies the
 * protocol; example.c is a driver with sockets.
 *
 * Nothing is allocated, nothing is global, and no socket or clock is touched: a driver says what time it is (nanoseconds that only go up),
 * hands over what came, and sends what it is handed. Callbacks may call tempo_publish, but `send`, which may call nothing here. What a
 * callback is handed is good until it returns. One thread at a time. */
#ifndef TEMPO_H
#define TEMPO_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef TEMPO_TOPICS
#define TEMPO_TOPICS 4 /* of an end point; one that it publishes and subscribes to counts twice */
#endif
#ifndef TEMPO_PEERS
#define TEMPO_PEERS 8 /* counterparts that it knows at once, each on one topic */
#endif
#ifndef TEMPO_DATAGRAM
#define TEMPO_DATAGRAM 1472 /* octets that it sends at once, at most; the largest announcement has 327 */
#endif
#define TEMPO_MS ((uint64_t)1000000) /* nanoseconds */

enum { TEMPO_MAGIC = 0x54, TEMPO_VERSION = 1, TEMPO_HEADER = 32, TEMPO_PAYLOAD = 65475, TEMPO_LARGEST = 1 << 24, TEMPO_PORT = 2811 };
enum tempo_kind { TEMPO_ANNOUNCEMENT = 1, TEMPO_DATA, TEMPO_PROBE, TEMPO_ECHO, TEMPO_REPORT, TEMPO_BYE };
enum tempo_flag { TEMPO_FRAGMENT = 1, TEMPO_BY_BROKER = 2, TEMPO_TYPED = 1 << 2, TEMPO_STRUCTURED = 2 << 2, TEMPO_CONTENT = 3 << 2 };
enum tempo_role { TEMPO_PUBLISHER = 1, TEMPO_SUBSCRIBER };
enum tempo_family { TEMPO_NOWHERE = 0, TEMPO_IPV4 = 4, TEMPO_IPV6 = 6, TEMPO_STREAM = 0xff };
enum tempo_channel { TEMPO_NONE, TEMPO_PEER, TEMPO_GROUP };
enum tempo_verdict {
    TEMPO_GOOD, TEMPO_INCOMPLETE, TEMPO_BAD_MAGIC, TEMPO_BAD_VERSION, TEMPO_BAD_LENGTH, TEMPO_BAD_SESSION, TEMPO_BAD_KIND, TEMPO_BAD_PAYLOAD
};

/* ---- Frames. Structs have the fields of the wire in its order, and no gaps ---- */

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
    const uint8_t *octets; /* the name of an announcement, not terminated; the message of data */
    size_t n;              /* octets of that */
};
typedef char tempo_has_no_gaps[sizeof(struct tempo_announcement) == 40 && sizeof(struct tempo_probe) == 48
    && sizeof(struct tempo_report) == 24 && offsetof(struct tempo_frame, as) == TEMPO_HEADER ? 1 : -1];
#define TEMPO_HEADER_SIZES "11114448224"
static inline const char *tempo_sizes(const struct tempo_frame *f) { /* of what all payloads of the kind have */
    return f->kind == TEMPO_ANNOUNCEMENT ? "8844444211" : f->kind == TEMPO_DATA ? (f->flags & TEMPO_FRAGMENT ? "44" : "")
        : f->kind == TEMPO_PROBE || f->kind == TEMPO_ECHO ? "8444211111111111111111144" : f->kind == TEMPO_REPORT ? "8844" : "1";
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
/* Whether a topic can have this name: 1 to 255 octets of UTF-8 without control characters (U+0000 to 1F, 7F to 9F). */
static inline int tempo_is_name(const uint8_t *name, size_t n) {
    const uint8_t *const end = name + n;
    if (n < 1 || n > 255) return 0;
    while (name < end) {
        uint32_t c = *name++, more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
        const uint32_t least = more == 3 ? 0x10000 : more == 2 ? 0x800 : more == 1 ? 0xa0 : 0x20;
        if (c >= 0xf8 || (c >= 0x80 && more == 0) || (size_t)(end - name) < more) return 0;
        for (c &= more == 0 ? 0x7fu : 0x3fu >> more; more > 0; more--, name++) {
            if ((*name & 0xc0) != 0x80) return 0;
            c = c << 6 | (*name & 0x3fu);
        }
        if (c < least || c == 0x7f || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff) return 0;
    }
    return 1;
}
static inline int tempo_is_payload(struct tempo_frame *f) {
    struct tempo_announcement *const a = &f->as.announcement;
    struct tempo_probe *const p = &f->as.probe;
    const uint32_t total = f->as.fragment.total, at = f->as.fragment.at;
    if (f->kind == TEMPO_DATA) {
        if ((f->flags & TEMPO_CONTENT) == TEMPO_CONTENT) return 0;
        return !(f->flags & TEMPO_FRAGMENT) || (f->n > 0 && total <= TEMPO_LARGEST && at < total && f->n <= total - at);
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
    if (f->kind < TEMPO_ANNOUNCEMENT || f->kind > TEMPO_BYE) return TEMPO_BAD_KIND;
    f->flags = (uint8_t)(f->flags & (f->kind == TEMPO_DATA ? TEMPO_CONTENT | TEMPO_FRAGMENT | TEMPO_BY_BROKER : TEMPO_BY_BROKER));
    for (const char *size = tempo_sizes(f); *size != 0; size++) fixed += (size_t)(*size - '0');
    if (f->length < fixed) return TEMPO_BAD_PAYLOAD;
    tempo_copy(&f->as, bytes + TEMPO_HEADER, tempo_sizes(f));
    f->octets = bytes + TEMPO_HEADER + fixed, f->n = f->length - fixed;
    return tempo_is_payload(f) ? TEMPO_GOOD : TEMPO_BAD_PAYLOAD;
}
/* Writes a frame (magic, version and lengths are filled in), and says how many octets it has; 0 if it is larger than `room`, or than a
 * frame can be, or has no name to announce. */
static inline size_t tempo_write(struct tempo_frame *f, uint8_t *out, size_t room) {
    uint8_t fixed[48];
    if (f->kind == TEMPO_ANNOUNCEMENT && (f->n < 1 || f->n > 255)) return 0;
    if (f->kind == TEMPO_ANNOUNCEMENT) f->as.announcement.name_octets = (uint8_t)f->n;
    else if (f->kind != TEMPO_DATA) f->n = 0;
    const size_t n = tempo_copy(fixed, &f->as, tempo_sizes(f));
    if (f->n > TEMPO_PAYLOAD - n || room < TEMPO_HEADER + n + f->n) return 0;
    f->magic = TEMPO_MAGIC, f->version = TEMPO_VERSION, f->reserved = 0, f->length = (uint32_t)(n + f->n);
    tempo_copy(out, f, TEMPO_HEADER_SIZES), memcpy(out + TEMPO_HEADER, fixed, n);
    if (f->n > 0) memcpy(out + TEMPO_HEADER + n, f->octets, f->n);
    return TEMPO_HEADER + n + f->n;
}

/* ---- Cookies: SipHash-2-4 of an address and a session, which only who has the secret can make ---- */

struct tempo_address { uint16_t port; uint8_t family, addr[16]; }; /* of a stream: the driver's number for the connection is in addr */

static inline uint64_t tempo_cookie(const uint64_t secret[2], const struct tempo_address *address, uint32_t session) {
#define TEMPO_ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))
#define TEMPO_ROUND a += b, b = TEMPO_ROTATE(b, 13) ^ a, a = TEMPO_ROTATE(a, 32), c += d, d = TEMPO_ROTATE(d, 16) ^ c, \
    a += d, d = TEMPO_ROTATE(d, 21) ^ a, c += b, b = TEMPO_ROTATE(b, 17) ^ c, c = TEMPO_ROTATE(c, 32)
    uint64_t a = secret[0] ^ 0x736f6d6570736575u, b = secret[1] ^ 0x646f72616e646f6du;
    uint64_t c = secret[0] ^ 0x6c7967656e657261u, d = secret[1] ^ 0x7465646279746573u, word;
    const size_t ip = address->family == TEMPO_IPV6 ? 16 : 4, words = ip == 16 ? 3 : 2;
    uint8_t octets[24] = { 0 };
    memcpy(octets, address->addr, ip), tempo_copy(octets + ip, &address->port, "2"), tempo_copy(octets + ip + 2, &session, "4");
    octets[8 * words - 1] = (uint8_t)(ip + 6);
    for (size_t i = 0; i < words; i++) {
        tempo_copy(&word, octets + 8 * i, "8");
        d ^= word, TEMPO_ROUND, TEMPO_ROUND, a ^= word;
    }
    c ^= 0xff, TEMPO_ROUND, TEMPO_ROUND, TEMPO_ROUND, TEMPO_ROUND, word = a ^ b ^ c ^ d;
    return word == 0 ? 1 : word;
#undef TEMPO_ROUND
#undef TEMPO_ROTATE
}

/* ---- The end point ---- */

struct tempo_driver {
    void *context;
    void (*send)(void *context, const struct tempo_address *to, const uint8_t *octets, size_t n);
    void (*message)(void *context, int topic, const struct tempo_frame *data); /* of fragments: the last that came, with all octets */
};
struct tempo_topic {                /* its number is its place in the table, and 1 */
    const char *name;               /* the caller's, who keeps it */
    struct tempo_announcement says; /* rates, deadline and largest may be changed at any time; role 0: a free place */
    uint64_t announce_at;           /* 0: with the next tick */
    uint64_t sent, unheard, too_large; /* messages: sent; not sent as nobody listened; not sent to one who takes none so large */
    uint64_t echoes, delay_ns, delay_highest_ns, delay_sum_ns;
    uint32_t sequence, probes;
};
struct tempo_peer {                 /* who has proven to be where it is: nothing is kept of strangers */
    uint32_t session, number;       /* its number for the topic; session 0: a free place */
    int topic, has_begun;
    struct tempo_address address;
    struct tempo_announcement says; /* `given` is its last cookie */
    uint64_t heard_at, delay_ns;    /* when that came; to a subscriber and back */
    uint64_t received, lost, late, repeated; /* messages; a subscriber's as it reports */
    uint64_t reported, reported_at; /* how many it was told of, and when */
    uint64_t last_at, missing;      /* bit n: the number n + 1 before the last one is lost */
    uint32_t last;
};
struct tempo_endpoint {
    uint32_t session;
    uint16_t period_ms;             /* 1,000; may be changed */
    enum tempo_channel kind;
    struct tempo_address channel;
    uint64_t secret[2], random, now;
    const struct tempo_driver *driver;
    uint8_t *buffer;                /* for one message in fragments, of which no more than 64 are put together */
    size_t buffer_octets;
    struct { int peer, has_last; uint32_t number, total, size, last_at; uint64_t came, begun_at; } unfinished; /* peer -1: none */
    struct tempo_topic topics[TEMPO_TOPICS];
    struct tempo_peer peers[TEMPO_PEERS];
    struct {
        uint64_t unreadable; /* no frame, or of a kind not known here */
        uint64_t unbound;    /* frames from who has not announced that topic there */
        uint64_t no_room;    /* announcements of more peers than TEMPO_PEERS */
        uint64_t fragments;  /* of no use: of a late message, of one too large, or another's is unfinished */
        uint64_t not_moved;  /* announcements of a session that is heard elsewhere */
        uint64_t met, moved, replaced, expired, left; /* peers */
    } counters;
    uint8_t out[TEMPO_DATAGRAM];
};

static inline struct tempo_address tempo_stream(uint32_t number) {
    struct tempo_address address = { 0, TEMPO_STREAM, { 0 } };
    memcpy(address.addr, &number, 4);
    return address;
}
static inline int tempo_is_same(const struct tempo_address *a, const struct tempo_address *b) {
    return a->family == b->family && a->port == b->port && memcmp(a->addr, b->addr, a->family == TEMPO_IPV6 ? 16 : 4) == 0;
}
/* `session` (not 0) and `secret` are drawn at random at each start. `channel` may be NULL with TEMPO_NONE, and `buffer` with 0 octets. */
static inline void tempo_begin(struct tempo_endpoint *e, uint32_t session, const uint64_t secret[2], enum tempo_channel kind,
                               const struct tempo_address *channel, uint8_t *buffer, size_t buffer_octets) {
    memset(e, 0, sizeof *e);
    e->session = session, e->period_ms = 1000, e->kind = kind, e->secret[0] = secret[0], e->secret[1] = secret[1];
    e->random = tempo_cookie(secret, &e->channel, session), e->buffer = buffer, e->buffer_octets = buffer_octets, e->unfinished.peer = -1;
    if (kind != TEMPO_NONE) e->channel = *channel;
}
/* A topic; the next tick announces it. Rate: messages in 1,000 s, 0: not told; deadline: 0: none. -1: no room, no name, or there already. */
static inline int tempo_add(struct tempo_endpoint *e, const char *name, enum tempo_role role, uint32_t rate, uint32_t deadline_us) {
    const size_t n = strlen(name), frame = TEMPO_DATAGRAM - TEMPO_HEADER;
    int place = -1;
    for (int i = 0; i < TEMPO_TOPICS; i++) {
        const struct tempo_topic *t = &e->topics[i];
        if (t->says.role == 0) place = i;
        else if (t->says.role == (uint8_t)role && t->says.name_octets == n && memcmp(t->name, name, n) == 0) return -1;
    }
    if (place < 0 || !tempo_is_name((const uint8_t *)name, n)) return -1;
    e->topics[place].name = name, e->topics[place].says.role = (uint8_t)role, e->topics[place].says.name_octets = (uint8_t)n;
    e->topics[place].says.rate = e->topics[place].says.highest_rate = rate, e->topics[place].says.deadline_us = deadline_us;
    e->topics[place].says.end_points = 1, e->topics[place].says.largest = (uint32_t)(e->buffer_octets > frame ? e->buffer_octets : frame);
    return place;
}
static inline void tempo_forget(struct tempo_endpoint *e, int peer) {
    if (e->unfinished.peer == peer) e->unfinished.peer = -1;
    memset(&e->peers[peer], 0, sizeof e->peers[peer]);
}
/* A connection was closed: who was at its end is forgotten. */
static inline void tempo_closed(struct tempo_endpoint *e, const struct tempo_address *stream) {
    for (int i = 0; i < TEMPO_PEERS; i++) if (tempo_is_same(&e->peers[i].address, stream)) tempo_forget(e, i);
}
static inline void tempo_send(struct tempo_endpoint *e, struct tempo_frame *f, enum tempo_kind kind, uint32_t number,
                              const struct tempo_address *to) {
    f->kind = (uint8_t)kind, f->session = e->session, f->topic = number;
    e->driver->send(e->driver->context, to, e->out, tempo_write(f, e->out, sizeof e->out));
}
static inline void tempo_announce(struct tempo_endpoint *e, int topic, const struct tempo_address *to, uint32_t session,
                                  uint64_t returned) {
    struct tempo_frame f;
    memset(&f, 0, sizeof f);
    f.as.announcement = e->topics[topic].says, f.as.announcement.period_ms = e->period_ms, f.as.announcement.returned = returned;
    f.as.announcement.given = session == 0 || to->family == TEMPO_STREAM ? 0 : tempo_cookie(e->secret, to, session);
    f.octets = (const uint8_t *)e->topics[topic].name, f.n = f.as.announcement.name_octets;
    tempo_send(e, &f, TEMPO_ANNOUNCEMENT, (uint32_t)topic + 1, to);
}
static inline int tempo_takes(const struct tempo_endpoint *e, int peer, int topic, size_t n) {
    const struct tempo_peer *const p = &e->peers[peer];
    return p->session != 0 && p->topic == topic && (p->says.largest == 0 || n <= p->says.largest);
}
/* Sends data or a probe to each subscriber, or once to the group; says to how many places. */
static inline int tempo_spread(struct tempo_endpoint *e, struct tempo_frame *f, enum tempo_kind kind, int topic, size_t n) {
    int places = 0;
    f->sequence = e->topics[topic].sequence + 1, f->sent = e->now;
    for (int i = 0; i < TEMPO_PEERS && (e->kind != TEMPO_GROUP || places == 0); i++) {
        if (!tempo_takes(e, i, topic, n)) continue;
        tempo_send(e, f, kind, (uint32_t)topic + 1, e->kind == TEMPO_GROUP ? &e->channel : &e->peers[i].address), places++;
    }
    return places;
}
/* Sends a message at once; says to how many places, 0 if nobody listens, or -1 if it cannot be sent. `content`: 0, _TYPED, _STRUCTURED. */
static inline int tempo_publish(struct tempo_endpoint *e, uint64_t now, int topic, int16_t priority, int content, const uint8_t *octets,
                                size_t n, const struct tempo_driver *driver) {
    const size_t room = TEMPO_DATAGRAM - TEMPO_HEADER;
    struct tempo_frame f;
    size_t at = 0;
    int places;
    if (topic < 0 || topic >= TEMPO_TOPICS || e->topics[topic].says.role != TEMPO_PUBLISHER || n > TEMPO_LARGEST) return -1;
    e->now = now, e->driver = driver;
    do {
        memset(&f, 0, sizeof f);
        f.priority = priority, f.flags = (uint8_t)((content & TEMPO_CONTENT) | (n > room ? TEMPO_FRAGMENT : 0));
        f.as.fragment.total = (uint32_t)n, f.as.fragment.at = (uint32_t)at;
        f.octets = octets + at, f.n = n <= room ? n : n - at < room - 8 ? n - at : room - 8;
        places = tempo_spread(e, &f, TEMPO_DATA, topic, n), at += f.n;
    } while (places > 0 && at < n);
    for (int i = 0; i < TEMPO_PEERS; i++) e->topics[topic].too_large += !tempo_takes(e, i, topic, n) && tempo_takes(e, i, topic, 0);
    if (places > 0) e->topics[topic].sequence++, e->topics[topic].sent++;
    else e->topics[topic].unheard++;
    return places;
}
/* Gives a topic up, and says so. */
static inline void tempo_remove(struct tempo_endpoint *e, int topic, const struct tempo_driver *driver) {
    struct tempo_frame f;
    memset(&f, 0, sizeof f);
    e->driver = driver, f.as.bye = e->topics[topic].says.role;
    if (e->kind != TEMPO_NONE) tempo_send(e, &f, TEMPO_BYE, (uint32_t)topic + 1, &e->channel);
    for (int i = 0; i < TEMPO_PEERS; i++) {
        if (e->peers[i].session == 0 || e->peers[i].topic != topic) continue;
        const int is_told = e->kind != TEMPO_GROUP && !tempo_is_same(&e->peers[i].address, &e->channel);
        if (is_told) tempo_send(e, &f, TEMPO_BYE, (uint32_t)topic + 1, &e->peers[i].address);
        tempo_forget(e, i);
    }
    memset(&e->topics[topic], 0, sizeof e->topics[topic]);
}
/* Whether a number is to be handed on; if it has `come`, it counts, and so do those that it skips. */
static inline int tempo_order(struct tempo_endpoint *e, int peer, uint32_t number, int has_come) {
    struct tempo_peer *const p = &e->peers[peer];
    const uint32_t ahead = number - p->last, behind = p->last - number;
    const uint64_t periods = 1 + (e->now - p->last_at) / (p->says.period_ms * TEMPO_MS);
    const uint64_t bit = behind - 1 < 64 ? (uint64_t)1 << (behind - 1) : 0;
    const int is_anew = !p->has_begun || (ahead < 0x80000000u ? ahead / 65536 >= periods : behind >= 65536);
    const int is_next = is_anew || (ahead > 0 && ahead < 0x80000000u);
    if (!has_come) return is_next;
    if (!is_next && (p->missing & bit)) p->missing &= ~bit, p->lost--, p->late++;
    else if (!is_next) p->repeated++;
    else {
        if (!is_anew) p->lost += ahead - 1;
        p->missing = is_anew ? 0 : (ahead < 64 ? p->missing << ahead : 0) | (ahead <= 64 ? ((uint64_t)1 << (ahead - 1)) - 1 : UINT64_MAX);
        p->last = number, p->last_at = e->now, p->has_begun = 1;
        if (e->unfinished.peer == peer) e->unfinished.peer = -1;
    }
    return is_next;
}
/* One more fragment; whether the message is complete, in the buffer. */
static inline int tempo_gather(struct tempo_endpoint *e, int peer, const struct tempo_frame *f) {
    const uint32_t at = f->as.fragment.at, total = f->as.fragment.total, n = (uint32_t)f->n;
    const int is_last = at + n == total, is_later = e->unfinished.peer == peer && f->sequence - e->unfinished.number - 1 < 0x7fffffffu;
    e->counters.fragments++; /* until it is of use */
    if (total > e->buffer_octets) return 0;
    if (e->unfinished.peer < 0 || is_later || e->now - e->unfinished.begun_at > e->period_ms * TEMPO_MS) {
        memset(&e->unfinished, 0, sizeof e->unfinished);
        e->unfinished.peer = peer, e->unfinished.number = f->sequence, e->unfinished.total = total, e->unfinished.begun_at = e->now;
    }
    const uint32_t size = is_last ? e->unfinished.size : n, last_at = is_last ? at : e->unfinished.last_at;
    if (e->unfinished.peer != peer || e->unfinished.number != f->sequence || total != e->unfinished.total) return 0;
    if (is_last && e->unfinished.has_last && at != e->unfinished.last_at) return 0;
    if (e->unfinished.size > 0 && size != e->unfinished.size) return 0;
    if (size > 0 && (at % size != 0 || (total - 1) / size >= 64)) return 0;
    if (size > 0 && (is_last || e->unfinished.has_last) && (last_at % size != 0 || total - last_at > size)) return 0;
    memcpy(e->buffer + at, f->octets, n);
    e->counters.fragments--, e->unfinished.size = size, e->unfinished.last_at = last_at;
    if (is_last) e->unfinished.has_last = 1;
    else e->unfinished.came |= (uint64_t)1 << at / size;
    return e->unfinished.has_last && (last_at == 0 || (size > 0 && e->unfinished.came == ((uint64_t)1 << last_at / size) - 1));
}
static inline void tempo_announced(struct tempo_endpoint *e, const struct tempo_address *from, const struct tempo_frame *f) {
    const struct tempo_announcement *const a = &f->as.announcement;
    const int is_proof = from->family == TEMPO_STREAM || (a->returned != 0 && a->returned == tempo_cookie(e->secret, from, f->session));
    int topic = -1, peer = -1, room = -1;
    for (int i = 0; i < TEMPO_TOPICS; i++) {
        const struct tempo_topic *t = &e->topics[i];
        if (t->says.role == 3 - a->role && t->says.name_octets == f->n && memcmp(t->name, f->octets, f->n) == 0) topic = i;
    }
    for (int i = 0; i < TEMPO_PEERS; i++) {
        const struct tempo_peer *const p = &e->peers[i];
        const int is_here = p->session != 0 && tempo_is_same(&p->address, from);
        if (p->session == f->session && p->topic == topic) peer = i;
        else if (is_here && (p->session == f->session ? p->number == f->topic && p->says.role == a->role : is_proof && topic >= 0))
            tempo_forget(e, i), e->counters.replaced++; /* its number has another name, or it has begun again */
        if (p->session == 0) room = i;
    }
    if (topic < 0) return;
    const int is_there = peer >= 0 && tempo_is_same(&e->peers[peer].address, from);
    const int is_heard = peer >= 0 && e->now - e->peers[peer].heard_at < TEMPO_MS * e->peers[peer].says.period_ms;
    if (!is_proof && (!is_there || a->given != 0 || e->peers[peer].number != f->topic))
        tempo_announce(e, topic, from, f->session, a->given); /* from a stranger, who proves that it is there by what this gives it */
    else if (peer < 0 && room < 0) e->counters.no_room++; /* without an answer: two that have no room would answer each other for ever */
    else if (is_heard && !is_there) e->counters.not_moved++;
    else {
        struct tempo_peer *const p = &e->peers[peer >= 0 ? peer : room];
        const uint64_t given = a->given != 0 ? a->given : p->says.given; /* to a group, none is given */
        if (peer < 0) p->reported_at = e->now, e->counters.met++;
        else if (!is_there) e->counters.moved++;
        if (p->number != f->topic) p->has_begun = 0;
        p->session = f->session, p->number = f->topic, p->topic = topic, p->address = *from;
        p->says = *a, p->says.given = given, p->heard_at = e->now;
        if (!is_there) tempo_announce(e, topic, from, f->session, given);
    }
}
static inline void tempo_probed(struct tempo_endpoint *e, const struct tempo_address *from, const struct tempo_frame *f) {
    struct tempo_frame echo;
    struct tempo_address to = { f->as.probe.port, f->as.probe.family, { 0 } };
    memcpy(to.addr, f->as.probe.addr, 16);
    if (!(f->flags & TEMPO_BY_BROKER) || to.family == TEMPO_NOWHERE) to = *from; /* so nobody can have echoes sent to somebody else */
    memset(&echo, 0, sizeof echo);
    echo.as.probe = f->as.probe, echo.as.probe.echoed_by = e->session, echo.sent = e->now;
    tempo_send(e, &echo, TEMPO_ECHO, f->as.probe.topic, &to);
}
/* An echo, which may come from behind a broker, from who has not announced itself here. */
static inline void tempo_echoed(struct tempo_endpoint *e, const struct tempo_probe *echo) {
    const uint64_t delay = e->now - echo->sent;
    if (echo->prober != e->session || echo->topic - 1 >= TEMPO_TOPICS || echo->sent > e->now) return;
    struct tempo_topic *const t = &e->topics[echo->topic - 1];
    if (t->probes - echo->number >= 8) return; /* none of the last ones */
    t->echoes++, t->delay_ns = delay, t->delay_sum_ns += delay;
    if (delay > t->delay_highest_ns) t->delay_highest_ns = delay;
    for (struct tempo_peer *p = e->peers; p < e->peers + TEMPO_PEERS; p++)
        if (p->session == echo->echoed_by && p->topic == (int)echo->topic - 1) p->delay_ns = delay;
}
static inline void tempo_data(struct tempo_endpoint *e, int peer, struct tempo_frame *f) {
    if (f->flags & TEMPO_FRAGMENT) {
        if (!tempo_order(e, peer, f->sequence, 0)) e->counters.fragments++;
        else if (tempo_gather(e, peer, f)) f->flags &= TEMPO_CONTENT, f->octets = e->buffer, f->n = f->as.fragment.total;
        if (f->flags & TEMPO_FRAGMENT) return;
    }
    if (!tempo_order(e, peer, f->sequence, 1)) return;
    e->peers[peer].received++;
    e->driver->message(e->driver->context, e->peers[peer].topic, f);
}
static inline void tempo_came(struct tempo_endpoint *e, const struct tempo_address *from, struct tempo_frame *f) {
    const int role = f->kind == TEMPO_REPORT ? (int)TEMPO_SUBSCRIBER : f->kind == TEMPO_BYE ? f->as.bye : (int)TEMPO_PUBLISHER;
    int peer;
    if (f->session == e->session) return; /* what went to a group comes back */
    if (f->kind == TEMPO_ANNOUNCEMENT) tempo_announced(e, from, f);
    if (f->kind == TEMPO_ECHO) tempo_echoed(e, &f->as.probe);
    if (f->kind == TEMPO_ANNOUNCEMENT || f->kind == TEMPO_ECHO) return;
    for (peer = 0; peer < TEMPO_PEERS; peer++) {
        const struct tempo_peer *const p = &e->peers[peer];
        const uint32_t number = f->kind == TEMPO_REPORT ? (uint32_t)p->topic + 1 : p->number;
        if (p->session == f->session && p->says.role == role && number == f->topic && tempo_is_same(&p->address, from)) break;
    }
    if (peer == TEMPO_PEERS) e->counters.unbound++;
    else if (f->kind == TEMPO_DATA) tempo_data(e, peer, f);
    else if (f->kind == TEMPO_REPORT) e->peers[peer].received = f->as.report.received, e->peers[peer].lost = f->as.report.lost;
    else if (f->kind == TEMPO_BYE) tempo_forget(e, peer), e->counters.left++;
    else if (tempo_order(e, peer, f->sequence, 1)) tempo_probed(e, from, f);
}
/* A datagram, or what came on a stream and was not consumed before. Says how many octets are consumed; -1: the stream must be closed. */
static inline ptrdiff_t tempo_handle(struct tempo_endpoint *e, uint64_t now, const struct tempo_address *from, const uint8_t *bytes, size_t n,
                                     const struct tempo_driver *driver) {
    const int is_stream = from->family == TEMPO_STREAM;
    size_t at = 0;
    e->now = now, e->driver = driver;
    for (size_t octets; at < n; at += octets) {
        struct tempo_frame f;
        const enum tempo_verdict verdict = tempo_read(&f, bytes + at, n - at, &octets);
        if (verdict == TEMPO_INCOMPLETE && is_stream) break;
        if (verdict == TEMPO_GOOD) tempo_came(e, from, &f);
        else e->counters.unreadable++;
        const int goes_on = verdict == TEMPO_GOOD || verdict == TEMPO_BAD_KIND || (verdict == TEMPO_BAD_PAYLOAD && !is_stream);
        if (!goes_on) return is_stream ? -1 : (ptrdiff_t)n;
    }
    return (ptrdiff_t)at;
}
/* A topic's turn to be announced: to who announced itself and to the channel; publishers probe, subscribers report. */
static inline void tempo_turn(struct tempo_endpoint *e, int topic) {
    const uint64_t period = e->period_ms * TEMPO_MS;
    struct tempo_topic *const t = &e->topics[topic];
    struct tempo_frame f;
    int is_known = e->kind == TEMPO_NONE; /* the channel, from its own announcements */
    e->random ^= e->random << 13, e->random ^= e->random >> 7, e->random ^= e->random << 17;
    t->announce_at = e->now + period - e->random % (period / 4 + 1);
    memset(&f, 0, sizeof f);
    for (struct tempo_peer *p = e->peers; p < e->peers + TEMPO_PEERS; p++) {
        if (p->session == 0 || p->topic != topic) continue;
        if (tempo_is_same(&p->address, &e->channel)) is_known = 1;
        if (e->kind != TEMPO_GROUP) tempo_announce(e, topic, &p->address, p->session, p->says.given);
        if (t->says.role == TEMPO_PUBLISHER) continue;
        f.as.report.received = p->received, f.as.report.lost = p->lost, f.as.report.end_points = 1;
        f.as.report.rate = (uint32_t)((p->received - p->reported) * TEMPO_MS / ((e->now - p->reported_at) / TEMPO_MS + 1));
        p->reported = p->received, p->reported_at = e->now;
        tempo_send(e, &f, TEMPO_REPORT, p->number, &p->address);
    }
    if (!is_known) tempo_announce(e, topic, &e->channel, 0, 0);
    memset(&f, 0, sizeof f);
    f.as.probe.sent = e->now, f.as.probe.prober = e->session, f.as.probe.topic = (uint32_t)topic + 1, f.as.probe.number = t->probes + 1;
    if (t->says.role == TEMPO_PUBLISHER && tempo_spread(e, &f, TEMPO_PROBE, topic, 0) > 0) t->sequence++, t->probes++;
}
/* To be called after whatever has come, and at the time that it says. */
static inline uint64_t tempo_tick(struct tempo_endpoint *e, uint64_t now, const struct tempo_driver *driver) {
    uint64_t next = UINT64_MAX;
    e->now = now, e->driver = driver;
    for (int i = 0; i < TEMPO_PEERS; i++) {
        const uint64_t until = e->peers[i].session != 0 ? e->peers[i].heard_at + 3 * TEMPO_MS * e->peers[i].says.period_ms : UINT64_MAX;
        if (until <= now) tempo_forget(e, i), e->counters.expired++;
        else if (until < next) next = until;
    }
    for (int i = 0; i < TEMPO_TOPICS; i++) {
        if (e->topics[i].says.role != 0 && e->topics[i].announce_at <= now) tempo_turn(e, i);
        if (e->topics[i].says.role != 0 && e->topics[i].announce_at < next) next = e->topics[i].announce_at;
    }
    return next;
}
#endif
