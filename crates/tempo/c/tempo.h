/* Tempo, the small protocol, for devices: an end point in C99 (C++ reads it too); its frames are in tempo_frames.h. docs/tempo.md specifies
 * the protocol; example.c is a driver with sockets.
 *
 * Nothing is allocated, nothing is global, and no socket or clock is touched: a driver says what time it is (nanoseconds that only go up),
 * hands over what came, and sends what it is handed. `message` may call tempo_publish, `send` nothing here. What a callback is handed is
 * good until it returns. One thread at a time. */
#ifndef TEMPO_H
#define TEMPO_H
#include "tempo_frames.h"

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
#define TEMPO_STREAM 0xff            /* the family of a connection */
enum tempo_channel { TEMPO_NONE, TEMPO_PEER, TEMPO_GROUP };

/* ---- Cookies: SipHash-2-4 of an address and a session, which only who has the secret can make ---- */

struct tempo_address { uint16_t port; uint8_t family, addr[16]; }; /* of a stream: the driver's number for the connection is in addr */

static inline uint64_t tempo_rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }
static inline uint64_t tempo_cookie(const uint64_t secret[2], const struct tempo_address *address, uint32_t session) {
    uint64_t a = secret[0] ^ 0x736f6d6570736575u, b = secret[1] ^ 0x646f72616e646f6du, word = 0;
    uint64_t c = secret[0] ^ 0x6c7967656e657261u, d = secret[1] ^ 0x7465646279746573u;
    const size_t ip = address->family == TEMPO_IPV6 ? 16 : 4, rounds = ip == 16 ? 6 : 4; /* two for each 8 octets, and four */
    uint8_t octets[24] = { 0 };
    memcpy(octets, address->addr, ip), tempo_copy(octets + ip, &address->port, "2"), tempo_copy(octets + ip + 2, &session, "4");
    octets[4 * rounds - 1] = (uint8_t)(ip + 6);
    for (size_t i = 0; i < rounds + 4; i++) {
        if (i == rounds) c ^= 0xff;
        if (i < rounds && i % 2 == 0) tempo_copy(&word, octets + 4 * i, "8"), d ^= word;
        a += b, b = tempo_rotate(b, 13) ^ a, a = tempo_rotate(a, 32), c += d, d = tempo_rotate(d, 16) ^ c;
        a += d, d = tempo_rotate(d, 21) ^ a, c += b, b = tempo_rotate(b, 17) ^ c, c = tempo_rotate(c, 32);
        if (i < rounds && i % 2 == 1) a ^= word;
    }
    word = a ^ b ^ c ^ d;
    return word == 0 ? 1 : word;
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
struct tempo_peer {                 /* who has proven to be where it is: nothing is kept of strangers. A free place is all 0 */
    uint32_t session, number;       /* its number for the topic */
    struct tempo_topic *topic;      /* ours */
    uint32_t last;                  /* the number of what came last, if anything has begun to come */
    uint16_t has_begun, names;      /* names: how often a broker was told ours */
    struct tempo_address address;
    struct tempo_announcement says; /* `given` is its last cookie */
    uint64_t heard_at, delay_ns;    /* when that came; to a subscriber and back */
    uint64_t received, lost, late, repeated; /* messages; a subscriber's as it reports */
    uint64_t reported, reported_at; /* how many it was told of, and when */
    uint64_t last_at, missing;      /* bit n: the number n + 1 before the last one is lost */
};
struct tempo_endpoint {
    uint32_t session;
    uint16_t period_ms;             /* 1,000; may be changed */
    enum tempo_channel kind;
    struct tempo_address channel;
    uint64_t secret[2], now;
    const struct tempo_driver *driver;
    const char *name;               /* what brokers call it: 64 octets at most, the caller's; NULL: nothing. Set behind tempo_begin */
    uint8_t *buffer;                /* for one message in fragments, of which no more than 64 are put together */
    size_t buffer_octets;
    struct { /* the message; size: of each fragment but the last; octets: that came; of NULL: there is none */
        const struct tempo_peer *of;
        uint32_t number, total, size, last, octets;
        uint64_t came, begun_at;
    } unfinished;
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
#define TEMPO_EACH(peer, e) for (struct tempo_peer *peer = (e)->peers; peer < (e)->peers + TEMPO_PEERS; peer++)

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
                               const struct tempo_address *channel, uint8_t *buffer, size_t octets, const struct tempo_driver *driver) {
    memset(e, 0, sizeof *e);
    e->session = session, e->period_ms = 1000, e->secret[0] = secret[0], e->secret[1] = secret[1], e->kind = kind;
    e->buffer = buffer, e->buffer_octets = octets, e->driver = driver;
    if (kind != TEMPO_NONE) e->channel = *channel;
}
/* Our topic with this role and name; a free place has 0 and none. */
static inline struct tempo_topic *tempo_find(struct tempo_endpoint *e, int role, const void *name, size_t n) {
    for (struct tempo_topic *t = e->topics; t < e->topics + TEMPO_TOPICS; t++)
        if (t->says.role == role && t->says.name_octets == n && (n == 0 || memcmp(t->name, name, n) == 0)) return t;
    return NULL;
}
/* A topic; the next tick announces it. Rate: messages in 1,000 s, 0: not told; deadline: 0: none. Says its place; -1: no room, no name,
 * or there already. */
static inline int tempo_add(struct tempo_endpoint *e, const char *name, enum tempo_role role, uint32_t rate, uint32_t deadline_us) {
    const size_t n = strlen(name), frame = TEMPO_DATAGRAM - TEMPO_HEADER, largest = e->buffer_octets > frame ? e->buffer_octets : frame;
    const struct tempo_announcement says = { 0, 0, rate, rate, deadline_us, 1, (uint32_t)largest, 0, (uint8_t)role, (uint8_t)n };
    struct tempo_topic *const t = tempo_find(e, 0, NULL, 0);
    if (t == NULL || !tempo_is_name((const uint8_t *)name, n) || tempo_find(e, (int)role, name, n) != NULL) return -1;
    t->name = name, t->says = says;
    return (int)(t - e->topics);
}
static inline void tempo_forget(struct tempo_endpoint *e, struct tempo_peer *p) {
    if (e->unfinished.of == p) e->unfinished.of = NULL;
    memset(p, 0, sizeof *p);
}
/* A connection was closed: who was at its end is forgotten. */
static inline void tempo_closed(struct tempo_endpoint *e, const struct tempo_address *stream) {
    TEMPO_EACH(p, e) if (tempo_is_same(&p->address, stream)) tempo_forget(e, p);
}
static inline uint32_t tempo_number(const struct tempo_endpoint *e, const struct tempo_topic *t) { return (uint32_t)(t - e->topics) + 1; }
static inline struct tempo_frame tempo_frame_of(const struct tempo_endpoint *e, enum tempo_kind kind, uint32_t number) {
    struct tempo_frame f;
    memset(&f, 0, sizeof f);
    f.kind = (uint8_t)kind, f.session = e->session, f.topic = number, f.sent = e->now;
    return f;
}
static inline void tempo_send(struct tempo_endpoint *e, struct tempo_frame *f, const struct tempo_address *to) {
    e->driver->send(e->driver->context, to, e->out, tempo_write(f, e->out, sizeof e->out));
}
static inline void tempo_announce(struct tempo_endpoint *e, const struct tempo_topic *t, const struct tempo_address *to, uint32_t session,
                                  uint64_t returned) {
    struct tempo_frame f = tempo_frame_of(e, TEMPO_ANNOUNCEMENT, tempo_number(e, t));
    f.as.announcement = t->says, f.as.announcement.period_ms = e->period_ms, f.as.announcement.returned = returned;
    f.as.announcement.given = session == 0 || to->family == TEMPO_STREAM ? 0 : tempo_cookie(e->secret, to, session);
    f.octets = (const uint8_t *)t->name, f.n = t->says.name_octets;
    tempo_send(e, &f, to);
}
/* Sends data or a probe to each subscriber that takes messages of `n` octets, or once to the group; NULL: only says how many they are. */
static inline int tempo_spread(struct tempo_endpoint *e, struct tempo_frame *f, const struct tempo_topic *t, size_t n) {
    int subscribers = 0;
    if (f != NULL) f->sequence = t->sequence + 1;
    TEMPO_EACH(p, e) {
        if (p->topic != t || (p->says.largest > 0 && n > p->says.largest)) continue;
        if (f != NULL && e->kind != TEMPO_GROUP) tempo_send(e, f, &p->address);
        else if (f != NULL && subscribers == 0) tempo_send(e, f, &e->channel);
        subscribers++;
    }
    return subscribers;
}
/* Sends a message at once; says to how many subscribers, or -1 if it cannot be sent. `content`: 0, _TYPED, _STRUCTURED. */
static inline int tempo_publish(struct tempo_endpoint *e, uint64_t now, int topic, int16_t priority, int content, const uint8_t *octets,
                                size_t n) {
    const size_t room = TEMPO_DATAGRAM - TEMPO_HEADER;
    size_t at = 0;
    int subscribers;
    if (topic < 0 || topic >= TEMPO_TOPICS || e->topics[topic].says.role != TEMPO_PUBLISHER || n > TEMPO_LARGEST) return -1;
    struct tempo_topic *const t = &e->topics[topic];
    e->now = now;
    do {
        struct tempo_frame f = tempo_frame_of(e, TEMPO_DATA, tempo_number(e, t));
        f.priority = priority, f.flags = (uint8_t)((content & TEMPO_CONTENT) | (n > room ? TEMPO_FRAGMENT : 0));
        f.as.fragment.total = (uint32_t)n, f.as.fragment.at = (uint32_t)at;
        f.octets = octets + at, f.n = n <= room ? n : n - at < room - 8 ? n - at : room - 8;
        subscribers = tempo_spread(e, &f, t, n), at += f.n;
    } while (subscribers > 0 && at < n);
    t->too_large += (uint64_t)(tempo_spread(e, NULL, t, 0) - subscribers);
    if (subscribers > 0) t->sequence++, t->sent++;
    else t->unheard++;
    return subscribers;
}
/* Gives a topic up, and says so. */
static inline void tempo_remove(struct tempo_endpoint *e, int topic) {
    struct tempo_topic *const t = &e->topics[topic];
    struct tempo_frame f = tempo_frame_of(e, TEMPO_BYE, tempo_number(e, t));
    f.as.bye = t->says.role;
    if (e->kind != TEMPO_NONE) tempo_send(e, &f, &e->channel);
    TEMPO_EACH(p, e) {
        if (p->topic != t) continue;
        if (e->kind != TEMPO_GROUP && !tempo_is_same(&p->address, &e->channel)) tempo_send(e, &f, &p->address);
        tempo_forget(e, p);
    }
    memset(t, 0, sizeof *t);
}
/* Whether a number is to be handed on; if it has `come`, it counts, and so do those that it skips. */
static inline int tempo_order(struct tempo_endpoint *e, struct tempo_peer *p, uint32_t number, int has_come) {
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
        if (e->unfinished.of == p && e->unfinished.number - number - 1 >= 65535) e->unfinished.of = NULL; /* it is not one of the next */
    }
    return is_next;
}
/* One more fragment; whether the message is complete, in the buffer. All fragments but the last have one size, so with the last one's,
 * which is no larger, they are complete when their sizes add up. No two that begin in one 64th are counted. */
static inline int tempo_gather(struct tempo_endpoint *e, const struct tempo_peer *p, const struct tempo_frame *f) {
    const uint32_t at = f->as.fragment.at, total = f->as.fragment.total, n = (uint32_t)f->n, part = (total + 63) / 64;
    const uint64_t bit = (uint64_t)1 << at / part;
    const int is_last = at + n == total, is_other = e->unfinished.of == p && e->unfinished.number - f->sequence >= 65536;
    e->counters.fragments++; /* until it is of use */
    if (total > e->buffer_octets) return 0;
    if (e->unfinished.of == NULL || is_other || e->now - e->unfinished.begun_at > e->period_ms * TEMPO_MS) {
        memset(&e->unfinished, 0, sizeof e->unfinished);
        e->unfinished.of = p, e->unfinished.number = f->sequence, e->unfinished.total = total, e->unfinished.begun_at = e->now;
    }
    const uint32_t size = is_last ? e->unfinished.size : n, last = is_last ? n : e->unfinished.last;
    if (e->unfinished.of != p || e->unfinished.number != f->sequence || total != e->unfinished.total) return 0;
    if ((e->unfinished.size > 0 && size != e->unfinished.size) || (e->unfinished.last > 0 && last != e->unfinished.last)) return 0;
    if (size > 0 && (size < part || last > size || at % size != 0)) return 0;
    memcpy(e->buffer + at, f->octets, n);
    e->counters.fragments--, e->unfinished.size = size, e->unfinished.last = last;
    if (!(e->unfinished.came & bit)) e->unfinished.came |= bit, e->unfinished.octets += n;
    return e->unfinished.octets == total;
}
static inline void tempo_announced(struct tempo_endpoint *e, const struct tempo_address *from, const struct tempo_frame *f) {
    const struct tempo_announcement *const a = &f->as.announcement;
    const int is_proof = from->family == TEMPO_STREAM || (a->returned != 0 && a->returned == tempo_cookie(e->secret, from, f->session));
    struct tempo_topic *const t = tempo_find(e, 3 - a->role, f->octets, f->n);
    struct tempo_peer *known = NULL, *room = NULL;
    TEMPO_EACH(p, e) {
        const int is_its = p->session == f->session, is_here = p->session != 0 && tempo_is_same(&p->address, from);
        if (is_its && p->topic == t) known = p;
        else if (is_here && (is_its ? p->number == f->topic && p->says.role == a->role : is_proof && t != NULL))
            tempo_forget(e, p), e->counters.replaced++; /* its number has another name, or it has begun again */
        if (p->session == 0) room = p;
    }
    if (t == NULL) return;
    const int is_there = known != NULL && tempo_is_same(&known->address, from);
    const int is_heard = known != NULL && e->now - known->heard_at < TEMPO_MS * known->says.period_ms;
    if (!is_proof && (!is_there || a->given != 0 || known->number != f->topic))
        tempo_announce(e, t, from, f->session, a->given); /* from a stranger, who proves that it is there by what this gives it */
    else if (known == NULL && room == NULL) e->counters.no_room++; /* without an answer: two that have no room would answer for ever */
    else if (is_heard && !is_there) e->counters.not_moved++;
    else {
        struct tempo_peer *const p = known != NULL ? known : room;
        const uint64_t given = a->given != 0 ? a->given : p->says.given; /* to a group, none is given */
        if (known == NULL) p->reported_at = e->now, e->counters.met++;
        else if (!is_there) e->counters.moved++;
        if (p->number != f->topic) p->has_begun = 0;
        p->session = f->session, p->number = f->topic, p->topic = t, p->address = *from;
        p->says = *a, p->says.given = given, p->heard_at = e->now;
        if (!is_there) tempo_announce(e, t, from, f->session, given);
        struct tempo_frame name = tempo_frame_of(e, TEMPO_NAME, 0);
        name.octets = (const uint8_t *)e->name, name.n = e->name != NULL ? strlen(e->name) : 0;
        if ((f->flags & TEMPO_BY_BROKER) && name.n >= 1 && name.n <= 64 && p->names < 3) p->names++, tempo_send(e, &name, from);
    }
}
static inline void tempo_probed(struct tempo_endpoint *e, const struct tempo_address *from, const struct tempo_frame *f) {
    struct tempo_frame echo = tempo_frame_of(e, TEMPO_ECHO, f->as.probe.topic);
    struct tempo_address to = { f->as.probe.port, f->as.probe.family, { 0 } };
    memcpy(to.addr, f->as.probe.addr, 16);
    echo.as.probe = f->as.probe, echo.as.probe.echoed_by = e->session;
    tempo_send(e, &echo, (f->flags & TEMPO_BY_BROKER) && to.family != TEMPO_NOWHERE ? &to : from); /* only a broker may say to where */
}
/* An echo, which may come from behind a broker, from who has not announced itself here. */
static inline void tempo_echoed(struct tempo_endpoint *e, const struct tempo_probe *echo) {
    const uint64_t delay = e->now - echo->sent;
    if (echo->prober != e->session || echo->topic - 1 >= TEMPO_TOPICS || echo->sent > e->now) return;
    struct tempo_topic *const t = &e->topics[echo->topic - 1];
    if (t->probes - echo->number >= 8) return; /* none of the last ones */
    t->echoes++, t->delay_ns = delay, t->delay_sum_ns += delay;
    if (delay > t->delay_highest_ns) t->delay_highest_ns = delay;
    TEMPO_EACH(p, e) if (p->session == echo->echoed_by && p->topic == t) p->delay_ns = delay;
}
static inline void tempo_data(struct tempo_endpoint *e, struct tempo_peer *p, struct tempo_frame *f) {
    if (f->flags & TEMPO_FRAGMENT) {
        if (!tempo_order(e, p, f->sequence, 0)) e->counters.fragments++;
        else if (tempo_gather(e, p, f)) f->flags &= TEMPO_CONTENT, f->octets = e->buffer, f->n = f->as.fragment.total;
        if (f->flags & TEMPO_FRAGMENT) return;
    }
    if (!tempo_order(e, p, f->sequence, 1)) return;
    p->received++;
    e->driver->message(e->driver->context, (int)(p->topic - e->topics), f);
}
static inline void tempo_came(struct tempo_endpoint *e, const struct tempo_address *from, struct tempo_frame *f) {
    const int role = f->kind == TEMPO_REPORT ? (int)TEMPO_SUBSCRIBER : f->kind == TEMPO_BYE ? f->as.bye : (int)TEMPO_PUBLISHER;
    if (f->session == e->session) return; /* what went to a group comes back */
    if (f->kind == TEMPO_ANNOUNCEMENT) tempo_announced(e, from, f);
    if (f->kind == TEMPO_ECHO) tempo_echoed(e, &f->as.probe);
    if (f->kind == TEMPO_ANNOUNCEMENT || f->kind == TEMPO_ECHO || f->kind == TEMPO_NAME) return; /* names are for brokers */
    TEMPO_EACH(p, e) {
        if (p->session != f->session || p->says.role != role || !tempo_is_same(&p->address, from)) continue;
        if (f->topic != (f->kind == TEMPO_REPORT ? tempo_number(e, p->topic) : p->number)) continue;
        if (f->kind == TEMPO_DATA) tempo_data(e, p, f);
        else if (f->kind == TEMPO_REPORT) p->received = f->as.report.received, p->lost = f->as.report.lost;
        else if (f->kind == TEMPO_BYE) tempo_forget(e, p), e->counters.left++;
        else if (tempo_order(e, p, f->sequence, 1)) tempo_probed(e, from, f);
        return;
    }
    e->counters.unbound++;
}
/* A datagram, or what came on a stream and was not consumed before. Says how many octets are consumed; -1: the stream must be closed. */
static inline ptrdiff_t tempo_handle(struct tempo_endpoint *e, uint64_t now, const struct tempo_address *from, const uint8_t *bytes,
                                     size_t n) {
    const int is_stream = from->family == TEMPO_STREAM;
    size_t at = 0;
    e->now = now;
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
static inline void tempo_turn(struct tempo_endpoint *e, struct tempo_topic *t) {
    const uint64_t period = e->period_ms * TEMPO_MS, chance = tempo_cookie(e->secret, &e->channel, (uint32_t)(e->now ^ t->probes));
    int is_known = e->kind == TEMPO_NONE; /* the channel, from its own announcements */
    t->announce_at = e->now + period - chance % (period / 4 + 1);
    TEMPO_EACH(p, e) {
        if (p->topic != t) continue;
        if (tempo_is_same(&p->address, &e->channel)) is_known = 1;
        if (e->kind != TEMPO_GROUP) tempo_announce(e, t, &p->address, p->session, p->says.given);
        if (t->says.role == TEMPO_PUBLISHER) continue;
        struct tempo_frame f = tempo_frame_of(e, TEMPO_REPORT, p->number);
        f.as.report.received = p->received, f.as.report.lost = p->lost, f.as.report.end_points = 1;
        f.as.report.rate = (uint32_t)((p->received - p->reported) * TEMPO_MS / ((e->now - p->reported_at) / TEMPO_MS + 1));
        p->reported = p->received, p->reported_at = e->now;
        tempo_send(e, &f, &p->address);
    }
    if (!is_known) tempo_announce(e, t, &e->channel, 0, 0);
    if (t->says.role != TEMPO_PUBLISHER) return;
    struct tempo_frame f = tempo_frame_of(e, TEMPO_PROBE, tempo_number(e, t));
    f.as.probe.sent = e->now, f.as.probe.prober = e->session, f.as.probe.topic = f.topic, f.as.probe.number = t->probes + 1;
    if (tempo_spread(e, &f, t, 0) > 0) t->sequence++, t->probes++;
}
/* To be called after whatever has come, and at the time that it says. */
static inline uint64_t tempo_tick(struct tempo_endpoint *e, uint64_t now) {
    uint64_t next = UINT64_MAX;
    e->now = now;
    TEMPO_EACH(p, e) {
        const uint64_t until = p->session != 0 ? p->heard_at + 3 * TEMPO_MS * p->says.period_ms : UINT64_MAX;
        if (until <= now) tempo_forget(e, p), e->counters.expired++;
        else if (until < next) next = until;
    }
    for (struct tempo_topic *t = e->topics; t < e->topics + TEMPO_TOPICS; t++) {
        if (t->says.role != 0 && t->announce_at <= now) tempo_turn(e, t);
        if (t->says.role != 0 && t->announce_at < next) next = t->announce_at;
    }
    return next;
}
#endif
