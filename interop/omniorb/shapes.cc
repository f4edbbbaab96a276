#include "shapes.h"

#include <cctype>
#include <cstring>
#include <limits>
#include <memory>

#include "campanile_test.hh"

namespace peer {

namespace {

using namespace CampanileTest;
using std::uint32_t;
using std::uint64_t;

// SplitMix64: short enough to be written alike in every language.
class Random {
public:
  Random(const std::string& shape, uint32_t index, uint32_t source) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const unsigned char c : shape) hash = (hash ^ c) * 0x100000001b3u;
    state_ = hash ^ (static_cast<uint64_t>(source) << 32) ^ index;
  }
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

private:
  uint64_t state_;
};

struct Differs {
  std::string what;
};

const uint32_t kWide[] = {0x61, 0xe9, 0x20ac, 0x4e2d, 0x416, 0x7a};
const uint32_t kUnicode[] = {0xe9, 0x20ac, 0x4e2d, 0x416, 0x41, 0x7fe};

// Walks a value and either fills it or compares it. Each method draws the same random numbers in both cases.
class Walk {
public:
  Walk(Random random, bool filling, const Shaper& shaper) : random_(random), filling_(filling), shaper_(shaper) {}

  bool filling() const { return filling_; }
  uint64_t draw() { return random_.next(); }
  const Shaper& shaper() const { return shaper_; }

  void expect(bool holds, const char* what) const {
    if (!filling_ && !holds) throw Differs{what};
  }

  template <typename T>
  void plain(T& field, T value, const char* what) {
    if (filling_)
      field = value;
    else
      expect(std::memcmp(&field, &value, sizeof value) == 0, what);
  }

  void octet(CORBA::Octet& f, const char* w) { plain(f, static_cast<CORBA::Octet>(draw()), w); }
  void boolean(CORBA::Boolean& f, const char* w) { plain(f, static_cast<CORBA::Boolean>((draw() & 1) != 0), w); }
  void short_(CORBA::Short& f, const char* w) { plain(f, static_cast<CORBA::Short>(draw()), w); }
  void ushort_(CORBA::UShort& f, const char* w) { plain(f, static_cast<CORBA::UShort>(draw()), w); }
  void long_(CORBA::Long& f, const char* w) { plain(f, static_cast<CORBA::Long>(draw()), w); }
  void ulong_(CORBA::ULong& f, const char* w) { plain(f, static_cast<CORBA::ULong>(draw()), w); }
  void longlong(CORBA::LongLong& f, const char* w) { plain(f, static_cast<CORBA::LongLong>(draw()), w); }
  void ulonglong(CORBA::ULongLong& f, const char* w) { plain(f, static_cast<CORBA::ULongLong>(draw()), w); }
  void char_(CORBA::Char& f, const char* w) { plain(f, static_cast<CORBA::Char>('A' + draw() % 26), w); }
  void colour(Colour& f, const char* w) { plain(f, static_cast<Colour>(draw() % 4), w); }
  void double_(CORBA::Double& f, const char* w) { plain(f, any_double(), w); }
  void float_(CORBA::Float& f, const char* w) {
    const uint64_t r = draw();
    plain(f, static_cast<float>(static_cast<std::int16_t>(r >> 32)) / 8.0f, w);
  }
  double any_double() {
    const uint64_t r = draw();
    if (r % 8 == 0) return -0.0;
    if (r % 8 == 1) return std::numeric_limits<double>::infinity();
    return static_cast<double>(static_cast<std::int32_t>(r >> 32)) / 1024.0;
  }
  wchar_t any_wchar() { return static_cast<wchar_t>(kWide[draw() % 6]); }
  void wchar(CORBA::WChar& f, const char* w) { plain(f, any_wchar(), w); }

  std::string any_ascii(uint32_t below) {
    const uint64_t length = draw() % below;
    std::string made;
    for (uint64_t i = 0; i < length; ++i) made += static_cast<char>('a' + draw() % 26);
    return made;
  }
  // Text that both ISO 8859-1 and UTF-8 can say, or only the latter, in this program's native code set.
  std::string any_text(bool unicode) {
    const uint64_t length = 1 + draw() % 12;
    std::string made;
    for (uint64_t i = 0; i < length; ++i) {
      const uint64_t r = draw();
      append(made, unicode ? kUnicode[r % 6] : static_cast<uint32_t>(0xa1 + r % 0x5f));
    }
    return made;
  }
  // `astral` mixes in pairs of surrogates, as UTF-16 writes characters beyond 0xffff.
  std::wstring any_wide(bool astral) {
    const uint64_t length = draw() % 12;
    std::wstring made;
    for (uint64_t i = 0; i < length; ++i) {
      made += any_wchar();
      if (astral && i % 2 == 0) {
        made += static_cast<wchar_t>(0xd834);
        made += static_cast<wchar_t>(0xdd1e);
      }
    }
    return made;
  }

  template <typename S>
  void string(S& field, const std::string& value, const char* what) {
    if (filling_)
      field = CORBA::string_dup(value.c_str());
    else
      expect(value == static_cast<const char*>(field), what);
  }
  template <typename S>
  void wide(S& field, const std::wstring& value, const char* what) {
    if (filling_)
      field = CORBA::wstring_dup(value.c_str());
    else
      expect(value == static_cast<const wchar_t*>(field), what);
  }
  template <typename Seq>
  CORBA::ULong length(Seq& seq, CORBA::ULong value, const char* what) {
    if (filling_)
      seq.length(value);
    else
      expect(seq.length() == value, what);
    return value;
  }
  template <typename Seq>
  CORBA::ULong some(Seq& seq, CORBA::ULong below, const char* what) {
    return length(seq, static_cast<CORBA::ULong>(draw() % below), what);
  }
  template <typename Seq>
  void octets(Seq& seq, CORBA::ULong count, const char* what) {
    length(seq, count, what);
    for (CORBA::ULong i = 0; i < count; i += 8) {
      const uint64_t r = draw();
      for (CORBA::ULong j = i; j < count && j < i + 8; ++j) {
        CORBA::Octet o = seq[j];
        plain(o, static_cast<CORBA::Octet>(r >> (8 * (j - i))), what);
        if (filling_) seq[j] = o;
      }
    }
  }

private:
  void append(std::string& to, uint32_t code) const {
    if (shaper_.chars == Chars::latin1) {
      to += static_cast<char>(code <= 0xff ? code : '?');
    } else if (code < 0x80) {
      to += static_cast<char>(code);
    } else if (code < 0x800) {
      to += static_cast<char>(0xc0 | (code >> 6));
      to += static_cast<char>(0x80 | (code & 0x3f));
    } else {
      to += static_cast<char>(0xe0 | (code >> 12));
      to += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
      to += static_cast<char>(0x80 | (code & 0x3f));
    }
  }

  Random random_;
  bool filling_;
  const Shaper& shaper_;
};

void walk(Walk& w, Primitives& v) {
  w.octet(v.a_octet, "a_octet");
  w.short_(v.a_short, "a_short");
  w.boolean(v.a_boolean, "a_boolean");
  w.long_(v.a_long, "a_long");
  w.char_(v.a_char, "a_char");
  w.longlong(v.a_long_long, "a_long_long");
  w.octet(v.b_octet, "b_octet");
  w.ushort_(v.a_unsigned_short, "a_unsigned_short");
  w.boolean(v.b_boolean, "b_boolean");
  w.double_(v.a_double, "a_double");
  w.char_(v.b_char, "b_char");
  w.float_(v.a_float, "a_float");
  w.octet(v.c_octet, "c_octet");
  w.ulong_(v.a_unsigned_long, "a_unsigned_long");
  w.ulonglong(v.a_unsigned_long_long, "a_unsigned_long_long");
  w.string(v.a_string, w.any_ascii(20), "a_string");
}

void walk(Walk& w, Point& v) {
  w.long_(v.x, "x");
  w.short_(v.y, "y");
  w.double_(v.z, "z");
}

void walk(Walk& w, Line& v) {
  walk(w, v.from);
  w.octet(v.weight, "weight");
  walk(w, v.to);
}

void walk(Walk& w, Nested& v) {
  w.string(v.name, w.any_ascii(20), "name");
  walk(w, v.outline);
  w.colour(v.tint, "tint");
  walk(w, v.origin);
}

void walk(Walk& w, ByColour& v) {
  const Colour d = static_cast<Colour>(w.draw() % 4);
  w.expect(v._d() == d, "discriminator of ByColour");
  if (d == red) {
    CORBA::Long n = w.filling() ? 0 : v.number();
    w.long_(n, "number");
    if (w.filling()) v.number(n);
  } else if (d == violet) {
    Point p{};
    if (!w.filling()) p = v.at();
    walk(w, p);
    if (w.filling()) {
      v.at(p);
      v._d(d);
    }
  } else {
    CORBA::String_var s = CORBA::string_dup(w.filling() ? "" : v.text());
    w.string(s, w.any_ascii(10), "text");
    if (w.filling()) {
      v.text(s.in());
      v._d(d);
    }
  }
}

void walk(Walk& w, ByLong& v) {
  const uint64_t r = w.draw() % 3;
  if (r == 0) {
    w.expect(v._d() == -1, "discriminator of ByLong");
    CORBA::Octet o = w.filling() ? 0 : v.small();
    w.octet(o, "small");
    if (w.filling()) v.small(o);
  } else if (r == 1) {
    w.expect(v._d() == 70000, "discriminator of ByLong");
    CORBA::LongLong l = w.filling() ? 0 : v.large();
    w.longlong(l, "large");
    if (w.filling()) v.large(l);
  } else {
    // JacORB's compiler takes no other value than 0 for this union's default.
    w.expect(v._d() == 0, "discriminator of ByLong");
    CORBA::String_var s = CORBA::string_dup(w.filling() ? "" : v.other());
    w.string(s, w.any_ascii(10), "other");
    if (w.filling()) {
      v.other(s.in());
      v._d(0);
    }
  }
}

void walk(Walk& w, ByBoolean& v) {
  const bool d = (w.draw() & 1) != 0;
  w.expect(v._d() == d, "discriminator of ByBoolean");
  if (d) {
    CORBA::Double n = w.filling() ? 0 : v.yes();
    w.double_(n, "yes");
    if (w.filling()) v.yes(n);
  } else if (w.filling()) {
    v._default();
  }
}

void walk(Walk& w, ByChar& v) {
  const uint64_t r = w.draw() % 2;
  w.expect(v._d() == (r == 0 ? 'a' : 'z'), "discriminator of ByChar");
  if (r == 0) {
    CORBA::Short n = w.filling() ? 0 : v.letter();
    w.short_(n, "letter");
    if (w.filling()) v.letter(n);
  } else {
    Line l{};
    if (!w.filling()) l = v.last();
    walk(w, l);
    if (w.filling()) v.last(l);
  }
}

void walk(Walk& w, Unions& v) {
  walk(w, v.first);
  walk(w, v.second);
  walk(w, v.third);
  walk(w, v.fourth);
  const CORBA::ULong n = w.some(v.more, 6, "more");
  for (CORBA::ULong i = 0; i < n; ++i) walk(w, v.more[i]);
}

void walk(Walk& w, Sequences& v) {
  CORBA::ULong n = w.some(v.points, 5, "points");
  for (CORBA::ULong i = 0; i < n; ++i) walk(w, v.points[i]);
  n = w.some(v.names, 5, "names");
  for (CORBA::ULong i = 0; i < n; ++i) {
    const std::string s = w.any_ascii(9);
    if (w.filling())
      v.names[i] = s.c_str();
    else
      w.expect(s == static_cast<const char*>(v.names[i]), "names");
  }
  w.octets(v.bytes, static_cast<CORBA::ULong>(w.draw() % 40), "bytes");
  n = w.some(v.flags, 9, "flags");
  for (CORBA::ULong i = 0; i < n; ++i) w.boolean(v.flags[i], "flags");
  n = w.some(v.rows, 4, "rows");
  for (CORBA::ULong i = 0; i < n; ++i) {
    const CORBA::ULong m = w.some(v.rows[i], 4, "row");
    for (CORBA::ULong j = 0; j < m; ++j) w.short_(v.rows[i][j], "row");
  }
  n = w.some(v.samples, 7, "samples");
  for (CORBA::ULong i = 0; i < n; ++i) w.double_(v.samples[i], "samples");
  n = w.some(v.colours, 6, "colours");
  for (CORBA::ULong i = 0; i < n; ++i) w.colour(v.colours[i], "colours");
  n = w.some(v.few, 9, "few");
  for (CORBA::ULong i = 0; i < n; ++i) w.long_(v.few[i], "few");
  w.string(v.tag, w.any_ascii(24), "tag");
  w.length(v.none, 0, "none");
}

void walk(Walk& w, Wide& v) {
  w.octet(v.before, "before");
  w.wchar(v.letter, "letter");
  w.wide(v.word, w.any_wide(false), "word");
  w.wide(v.empty, std::wstring(), "empty");
  CORBA::ULong n = w.some(v.words, 4, "words");
  for (CORBA::ULong i = 0; i < n; ++i) {
    const std::wstring s = w.any_wide(false);
    if (w.filling())
      v.words[i] = s.c_str();
    else
      w.expect(s == static_cast<const wchar_t*>(v.words[i]), "words");
  }
  n = w.some(v.letters, 5, "letters");
  for (CORBA::ULong i = 0; i < n; ++i) w.wchar(v.letters[i], "letters");
  w.wide(v.astral, w.any_wide(true), "astral");
  w.long_(v.after, "after");
}

void walk_text(Walk& w, Text& v, bool unicode) {
  w.string(v.latin, w.any_text(unicode), "latin");
  // A char is one octet on the wire, which leaves UTF-8 only ASCII.
  w.char_(v.letter, "letter");
  w.string(v.empty, std::string(), "empty");
  const CORBA::ULong n = w.some(v.more, 4, "more");
  for (CORBA::ULong i = 0; i < n; ++i) {
    const std::string s = w.any_text(unicode);
    if (w.filling())
      v.more[i] = s.c_str();
    else
      w.expect(s == static_cast<const char*>(v.more[i]), "more");
  }
}

void walk(Walk& w, Block& v) {
  w.octet(v.before, "before");
  w.octets(v.data, w.shaper().block_size, "data");
  w.ulong_(v.after, "after");
}

void walk(Walk& w, Tree& v, uint32_t depth) {
  w.short_(v.leaf, "leaf");
  const CORBA::ULong n = w.length(v.branches, static_cast<CORBA::ULong>(depth == 0 ? 0 : w.draw() % 4), "branches");
  for (CORBA::ULong i = 0; i < n; ++i) walk(w, v.branches[i], depth - 1);
  w.double_(v.weight, "weight");
}

template <typename T>
void walk_in_any(Walk& w, CORBA::Any& any, const char* what) {
  if (w.filling()) {
    // Handed over rather than copied: omniORB's fixed-point members forget their digits when copied.
    auto value = std::make_unique<T>();
    walk(w, *value);
    any <<= value.release();
  } else {
    const T* there = nullptr;
    if (!(any >>= there)) throw Differs{std::string(what) + " holds another type"};
    T copy(*there);
    walk(w, copy);
  }
}

void walk_long(Walk& w, CORBA::Any& any) {
  CORBA::Long n = 0;
  if (!w.filling() && !(any >>= n)) throw Differs{"any is not a long"};
  w.long_(n, "long in any");
  if (w.filling()) any <<= n;
}

void walk_string(Walk& w, CORBA::Any& any) {
  const std::string s = w.any_ascii(12);
  const char* there = nullptr;
  if (w.filling())
    any <<= s.c_str();
  else if (!(any >>= there) || s != there)
    throw Differs{"string in any"};
}

void walk_wstring(Walk& w, CORBA::Any& any) {
  const std::wstring s = w.any_wide(true);
  const CORBA::WChar* there = nullptr;
  if (w.filling())
    any <<= s.c_str();
  else if (!(any >>= there) || s != there)
    throw Differs{"wstring in any"};
}

void walk_colour(Walk& w, CORBA::Any& any) {
  Colour c = red;
  if (!w.filling() && !(any >>= c)) throw Differs{"any is not a Colour"};
  w.colour(c, "colour in any");
  if (w.filling()) any <<= c;
}

void walk_octets(Walk& w, CORBA::Any& any) {
  OctetSeq made;
  const OctetSeq* there = nullptr;
  if (!w.filling()) {
    if (!(any >>= there)) throw Differs{"any is not an OctetSeq"};
    made = *there;
  }
  w.octets(made, static_cast<CORBA::ULong>(w.draw() % 30), "octets in any");
  if (w.filling()) any <<= made;
}

// Long enough to be sent in fragments, and made of values that need alignment, so that fragments break inside them.
void walk(Walk& w, PointSeq& v) {
  const CORBA::ULong n = w.length(v, 1500, "points");
  for (CORBA::ULong i = 0; i < n; ++i) walk(w, v[i]);
}

void walk_scalars(Walk& w, CORBA::Any& any, uint64_t kind) {
  if (kind == 0) {
    CORBA::Boolean b = false;
    if (!w.filling() && !(any >>= CORBA::Any::to_boolean(b))) throw Differs{"any is not a boolean"};
    w.boolean(b, "boolean in any");
    if (w.filling()) any <<= CORBA::Any::from_boolean(b);
  } else if (kind == 1) {
    CORBA::Double d = 0;
    if (!w.filling() && !(any >>= d)) throw Differs{"any is not a double"};
    w.double_(d, "double in any");
    if (w.filling()) any <<= d;
  } else {
    CORBA::Octet o = 0;
    if (!w.filling() && !(any >>= CORBA::Any::to_octet(o))) throw Differs{"any is not an octet"};
    w.octet(o, "octet in any");
    if (w.filling()) any <<= CORBA::Any::from_octet(o);
  }
}

void walk(Walk& w, Anys& v) {
  switch (w.draw() % 3) {
    case 0:
      walk_long(w, v.inner);
      break;
    case 1:
      walk_string(w, v.inner);
      break;
    default:
      walk_in_any<Point>(w, v.inner, "inner");
      break;
  }
  w.octet(v.between, "between");
  CORBA::Any one, two;
  if (!w.filling()) {
    const CORBA::Any* there = nullptr;
    if (!(v.deep >>= there)) throw Differs{"deep is not an any"};
    two = *there;
    if (!(two >>= there)) throw Differs{"deep any is not an any"};
    one = *there;
  }
  walk_in_any<Line>(w, one, "deep");
  if (w.filling()) {
    two <<= one;
    v.deep <<= two;
  }
  const CORBA::ULong n = w.some(v.mixed, 10, "mixed");
  for (CORBA::ULong i = 0; i < n; ++i) {
    const uint64_t kind = w.draw() % 8;
    if (kind < 3)
      walk_scalars(w, v.mixed[i], kind);
    else if (kind == 3)
      walk_wstring(w, v.mixed[i]);
    else if (kind == 4)
      walk_colour(w, v.mixed[i]);
    else if (kind == 5)
      walk_octets(w, v.mixed[i]);
    else if (kind == 6)
      walk_string(w, v.mixed[i]);
    else
      walk_in_any<Primitives>(w, v.mixed[i], "mixed");
  }
  if (!w.filling()) {
    const CORBA::TypeCode_var type = v.nothing.type();
    w.expect(type->kind() == CORBA::tk_null, "nothing");
  }
}

void walk(Walk& w, Arrays& v) {
  for (int i = 0; i < 6; ++i) w.octet(v.address[i], "address");
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) w.long_(v.cells[i][j], "cells");
  for (int i = 0; i < 2; ++i) {
    const std::string s = w.any_ascii(8);
    if (w.filling())
      v.names[i] = s.c_str();
    else
      w.expect(s == static_cast<const char*>(v.names[i]), "names");
  }
  for (int i = 0; i < 3; ++i) w.colour(v.colours[i], "colours");
  for (int i = 0; i < 2; ++i) walk(w, v.ends[i]);
}

std::string fixed_text(uint64_t digits, uint32_t scale, bool negative) {
  std::string text = std::to_string(digits);
  while (text.size() <= scale) text.insert(0, "0");
  text.insert(text.size() - scale, ".");
  return (negative ? "-" : "") + text;
}

// `money` uses every digit and `coins` only the last ones: JacORB leaves out the octets of leading zeros, which omniORB
// refuses to read.
void walk_money(Walk& w, Money& v, bool coins) {
  const auto digits = [&](uint64_t r, uint64_t least) {
    const uint64_t from = coins ? 1 : least;
    return from + (r >> 1) % (9 * from);
  };
  w.octet(v.before, "before");
  uint64_t r = w.draw();
  const CORBA::Fixed price(fixed_text(digits(r, 100000000000u), 4, (r & 1) != 0).c_str());
  r = w.draw();
  const CORBA::Fixed fee(fixed_text(digits(r, 1000000u), 2, (r & 1) != 0).c_str());
  if (w.filling()) {
    v.price = price;
    v.fee = fee;
  } else {
    w.expect(CORBA::Fixed(v.price) == price, "price");
    w.expect(CORBA::Fixed(v.fee) == fee, "fee");
  }
  w.long_(v.after, "after");
}

void walk_coins(Walk& w, CORBA::Any& any) {
  const Money* there = nullptr;
  if (w.filling()) {
    auto made = std::make_unique<Money>();
    walk_money(w, *made, true);
    any <<= made.release();
  } else if (any >>= there) {
    Money copy(*there);
    walk_money(w, copy, true);
  } else {
    throw Differs{"any is no Money"};
  }
}

void walk(Walk& w, Money& v) { walk_money(w, v, false); }

// True if the reference's stringified form holds the end point and the key. Each ORB writes a reference in its own way,
// so comparing them whole, or with `_is_equivalent`, says less than it seems to.
bool leads_to(const Walk& w, CORBA::Object_ptr object, const std::string& key) {
  if (CORBA::is_nil(object)) return false;
  const CORBA::String_var ior = w.shaper().orb->object_to_string(object);
  std::string hex(ior.in());
  for (char& c : hex) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto hex_of = [](const std::string& text) {
    static const char digits[] = "0123456789abcdef";
    std::string made;
    for (const unsigned char c : text) made += {digits[c >> 4], digits[c & 15]};
    return made;
  };
  return hex.find(hex_of("127.0.0.1")) != std::string::npos && hex.find(hex_of(key)) != std::string::npos;
}

void walk(Walk& w, References& v) {
  const std::string key = "witness-" + w.any_ascii(12);
  const std::string url = "corbaloc:iiop:1.2@127.0.0.1:9/" + key;
  const CORBA::Object_var object = w.shaper().orb->string_to_object(url.c_str());
  const Witness_var typed = Witness::_unchecked_narrow(object);
  if (w.filling()) {
    v.nil_object = CORBA::Object::_nil();
    v.some_object = CORBA::Object::_duplicate(object);
    v.typed = Witness::_duplicate(typed);
  } else {
    w.expect(CORBA::is_nil(v.nil_object), "nil_object");
    w.expect(leads_to(w, v.some_object, key), "some_object");
    w.expect(leads_to(w, v.typed, key), "typed");
  }
  w.octet(v.between, "between");
}

// Equal, or a union or struct of the same name with the same members: ORBs differ in what label they give a union's
// default member, and so in what they call equal.
bool same_type(CORBA::TypeCode_ptr one, CORBA::TypeCode_ptr other) {
  if (one->equal(other)) return true;
  const CORBA::TCKind kind = one->kind();
  if (kind != other->kind() || (kind != CORBA::tk_union && kind != CORBA::tk_struct)) return false;
  if (std::string(one->id()) != other->id() || one->member_count() != other->member_count()) return false;
  for (CORBA::ULong i = 0; i < one->member_count(); ++i) {
    if (std::string(one->member_name(i)) != other->member_name(i)) return false;
  }
  return true;
}

void walk(Walk& w, TypeCodes& v) {
  const auto one = [&w](CORBA::TypeCode_member& field, CORBA::TypeCode_ptr type, const char* what) {
    if (w.filling())
      field = CORBA::TypeCode::_duplicate(type);
    else
      w.expect(same_type(field, type), what);
  };
  one(v.of_long, CORBA::_tc_long, "of_long");
  one(v.of_string, CORBA::_tc_string, "of_string");
  one(v.of_alias, _tc_ShortString, "of_alias");
  w.octet(v.between, "between");
  one(v.of_union, _tc_ByColour, "of_union");
  one(v.of_recursive, _tc_Tree, "of_recursive");
  one(v.of_interface, _tc_Witness, "of_interface");
  one(v.of_exception_free_struct, _tc_Sequences, "of_exception_free_struct");
}

void walk(Walk& w, Tree& v) { walk(w, v, 4); }

void walk_text_any(Walk& w, CORBA::Any& any, bool unicode) {
  Text made;
  const Text* there = nullptr;
  if (!w.filling()) {
    if (!(any >>= there)) throw Differs{"the event holds another type"};
    made = *there;
  }
  walk_text(w, made, unicode);
  if (w.filling()) any <<= made;
}

void walk_small(Walk& w, CORBA::Any& any, uint32_t index, uint32_t source) {
  Small made;
  const Small* there = nullptr;
  if (!w.filling()) {
    if (!(any >>= there)) throw Differs{"the event is not a Small"};
    made = *there;
  }
  w.plain(made.source, static_cast<CORBA::ULong>(source), "source");
  w.plain(made.number, static_cast<CORBA::ULong>(index), "number");
  w.octets(made.payload, w.shaper().payload_size, "payload");
  if (w.filling()) any <<= made;
}

void walk_shape(Walk& w, const std::string& shape, uint32_t index, uint32_t source, CORBA::Any& any) {
  const char* what = "the event";
  if (shape == "primitives")
    walk_in_any<Primitives>(w, any, what);
  else if (shape == "nested")
    walk_in_any<Nested>(w, any, what);
  else if (shape == "unions")
    walk_in_any<Unions>(w, any, what);
  else if (shape == "sequences")
    walk_in_any<Sequences>(w, any, what);
  else if (shape == "wide")
    walk_in_any<Wide>(w, any, what);
  else if (shape == "latin")
    walk_text_any(w, any, false);
  else if (shape == "unicode")
    walk_text_any(w, any, true);
  else if (shape == "block")
    walk_in_any<Block>(w, any, what);
  else if (shape == "points")
    walk_in_any<PointSeq>(w, any, what);
  else if (shape == "anys")
    walk_in_any<Anys>(w, any, what);
  else if (shape == "tree")
    walk_in_any<Tree>(w, any, what);
  else if (shape == "arrays")
    walk_in_any<Arrays>(w, any, what);
  else if (shape == "money")
    walk_in_any<Money>(w, any, what);
  else if (shape == "coins")
    walk_coins(w, any);
  else if (shape == "references")
    walk_in_any<References>(w, any, what);
  else if (shape == "typecodes")
    walk_in_any<TypeCodes>(w, any, what);
  else if (shape == "colour")
    walk_colour(w, any);
  else if (shape == "word")
    walk_wstring(w, any);
  else if (shape == "small")
    walk_small(w, any, index, source);
  else
    throw Differs{"no such shape: " + shape};
}

// The header and the filterable data are the same for every shape; the type's name says which it is.
void walk_event(Walk& w, const std::string& shape, uint32_t index, CosNotification::StructuredEvent& e) {
  w.string(e.header.fixed_header.event_type.domain_name, "Campanile", "domain_name");
  w.string(e.header.fixed_header.event_type.type_name, shape, "type_name");
  w.string(e.header.fixed_header.event_name, "event-" + std::to_string(index), "event_name");
  auto& variable = e.header.variable_header;
  w.length(variable, 2, "variable_header");
  w.string(variable[0].name, "Timeout", "variable_header name");
  CORBA::ULongLong hour = 36000000000u;
  if (!w.filling() && (!(variable[0].value >>= hour) || hour != 36000000000u)) throw Differs{"Timeout"};
  if (w.filling()) variable[0].value <<= hour;
  w.string(variable[1].name, "Campanile.Trace", "variable_header name");
  walk_string(w, variable[1].value);
  auto& data = e.filterable_data;
  w.length(data, 4, "filterable_data");
  w.string(data[0].name, "number", "filterable name");
  CORBA::ULong number = index;
  if (!w.filling() && (!(data[0].value >>= number) || number != index)) throw Differs{"number"};
  if (w.filling()) data[0].value <<= number;
  w.string(data[1].name, "flag", "filterable name");
  walk_scalars(w, data[1].value, 0);
  w.string(data[2].name, "name", "filterable name");
  walk_string(w, data[2].value);
  w.string(data[3].name, "ratio", "filterable name");
  walk_scalars(w, data[3].value, 1);
}

std::string seed_of_header(const std::string& shape) { return "header of " + shape; }

}  // namespace

CORBA::Any Shaper::make(const std::string& shape, uint32_t index, uint32_t source) const {
  CORBA::Any any;
  Walk w(Random(shape, index, source), true, *this);
  walk_shape(w, shape, index, source, any);
  return any;
}

std::string Shaper::check(const std::string& shape, uint32_t index, uint32_t source, const CORBA::Any& value) const {
  try {
    CORBA::Any copy(value);
    Walk w(Random(shape, index, source), false, *this);
    walk_shape(w, shape, index, source, copy);
    return "";
  } catch (const Differs& differs) {
    return shape + ": " + differs.what;
  }
}

const CORBA::Any& Shaper::value_of(const CosNotification::StructuredEvent& event) const {
  const bool is_datum = inside == "data" && event.filterable_data.length() == 1;
  return is_datum ? event.filterable_data[0].value : event.remainder_of_body;
}

CosNotification::StructuredEvent Shaper::make_event(const std::string& shape, uint32_t index, uint32_t source) const {
  CosNotification::StructuredEvent event;
  if (!inside.empty()) {
    const CORBA::Any value = make(shape, index, source);
    const CORBA::TypeCode_var type = value.type();
    event.header.fixed_header.event_type.domain_name = "ALMA";
    event.header.fixed_header.event_type.type_name = type->name();
    if (inside != "data") {
      event.remainder_of_body = value;
      return event;
    }
    event.filterable_data.length(1);
    event.filterable_data[0].value = value;
    return event;
  }
  Walk w(Random(seed_of_header(shape), index, source), true, *this);
  walk_event(w, shape, index, event);
  event.remainder_of_body = make(shape, index, source);
  return event;
}

std::string Shaper::check_event(const std::string& shape, uint32_t index, uint32_t source,
                                const CosNotification::StructuredEvent& event) const {
  if (!inside.empty()) {
    const CORBA::Any& value = value_of(event);
    const CORBA::TypeCode_var type = value.type();
    const auto& named = event.header.fixed_header.event_type;
    if (std::string(named.type_name) != type->name()) return shape + ": its type_name is " + named.type_name.in();
    if (inside == "data" && std::string(named.domain_name) != "ALMA")
      return shape + ": its domain_name is " + named.domain_name.in();
    return check(shape, index, source, value);
  }
  try {
    CosNotification::StructuredEvent copy(event);
    Walk w(Random(seed_of_header(shape), index, source), false, *this);
    walk_event(w, shape, index, copy);
  } catch (const Differs& differs) {
    return shape + ": " + differs.what;
  }
  return check(shape, index, source, event.remainder_of_body);
}

std::vector<std::string> shapes_of(const std::string& scenario) {
  // `narrow` leaves out what GIOP 1.0 cannot say: wide characters.
  const std::string narrow =
      "primitives,nested,unions,sequences,latin,block,points,tree,arrays,money,references,typecodes,colour,small";
  const std::string list = scenario == "all" ? "wide,anys,word," + narrow : scenario == "narrow" ? narrow : scenario;
  std::vector<std::string> shapes;
  std::size_t start = 0;
  while (start <= list.size()) {
    const std::size_t comma = std::min(list.find(',', start), list.size());
    shapes.push_back(list.substr(start, comma - start));
    start = comma + 1;
  }
  return shapes;
}

bool identify(const CORBA::Any& value, uint32_t& source, uint32_t& number) {
  const Small* small = nullptr;
  if (!(value >>= small)) return false;
  source = small->source;
  number = small->number;
  return true;
}

}  // namespace peer
