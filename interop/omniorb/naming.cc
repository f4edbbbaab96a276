// `naming`: the naming service as a client finds it through the initial reference NameService.

#include "commands.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <omniORB4/Naming.hh>

#include "orb.h"

namespace peer {

namespace {

CosNaming::Name name_of(const std::string& id, const std::string& kind = "") {
  CosNaming::Name name;
  name.length(1);
  name[0].id = id.c_str();
  name[0].kind = kind.c_str();
  return name;
}

CosNaming::Name path_of(const std::string& first, const std::string& second) {
  CosNaming::Name name;
  name.length(2);
  name[0].id = first.c_str();
  name[0].kind = "";
  name[1].id = second.c_str();
  name[1].kind = "";
  return name;
}

std::string text_of(const CosNaming::Name& name) {
  std::string line;
  for (CORBA::ULong i = 0; i < name.length(); ++i)
    line += std::string(i == 0 ? "" : "/") + name[i].id.in() +
            (*name[i].kind.in() == '\0' ? "" : std::string(".") + name[i].kind.in());
  return line;
}

std::string text_of(const CosNaming::BindingList& list) {
  std::vector<std::string> all;
  for (CORBA::ULong i = 0; i < list.length(); ++i)
    all.push_back(text_of(list[i].binding_name) + (list[i].binding_type == CosNaming::ncontext ? "/" : ""));
  std::sort(all.begin(), all.end());
  std::string line;
  for (const std::string& one : all) line += (line.empty() ? "" : " ") + one;
  return line;
}

void attempt(const std::string& what, const std::function<std::string()>& call) {
  try {
    say(what + ": " + call());
  } catch (const CosNaming::NamingContext::NotFound& raised) {
    static const char* const why[] = {"missing_node", "not_context", "not_object"};
    say(what + ": NotFound " + why[raised.why] + " " + text_of(raised.rest_of_name));
  } catch (const CORBA::SystemException& raised) {
    say(what + ": " + raised._name());
  } catch (const CORBA::Exception& raised) {
    say(what + ": " + raised._rep_id());
  }
}

void attempt_void(const std::string& what, const std::function<void()>& call) {
  attempt(what, [&call] {
    call();
    return std::string("ok");
  });
}

std::string same(CORBA::Object_ptr one, CORBA::Object_ptr other) {
  return !CORBA::is_nil(one) && one->_is_equivalent(other) ? "same" : "different";
}

void bindings(CosNaming::NamingContextExt_ptr root, CORBA::Object_ptr object) {
  attempt_void("bind", [&] { root->bind(name_of("thing", "test"), object); });
  attempt("resolve", [&] {
    const CORBA::Object_var got = root->resolve(name_of("thing", "test"));
    return same(got, object);
  });
  attempt_void("bind again", [&] { root->bind(name_of("thing", "test"), object); });
  attempt_void("rebind", [&] { root->rebind(name_of("thing", "test"), object); });
  attempt("resolve other kind", [&] {
    const CORBA::Object_var got = root->resolve(name_of("thing", "other"));
    return same(got, object);
  });
  attempt("resolve missing", [&] {
    const CORBA::Object_var got = root->resolve(path_of("nowhere", "thing"));
    return same(got, object);
  });
  attempt("resolve empty", [&] {
    const CORBA::Object_var got = root->resolve(CosNaming::Name());
    return same(got, object);
  });
  attempt("resolve_str", [&] {
    const CORBA::Object_var got = root->resolve_str("thing.test");
    return same(got, object);
  });
  attempt("to_name", [&] {
    const CosNaming::Name_var got = root->to_name("a.b/c\\/d/e\\.f.g");
    std::string s;
    for (CORBA::ULong i = 0; i < got->length(); ++i)
      s += std::string(s.empty() ? "" : " | ") + got.in()[i].id.in() + "," + got.in()[i].kind.in();
    return s;
  });
  attempt("to_name bad", [&] {
    const CosNaming::Name_var got = root->to_name("a//b");
    return text_of(got.in());
  });
  attempt("to_string", [&] {
    const CORBA::String_var got = root->to_string(name_of("a/b", "c.d"));
    return std::string(got.in());
  });
  attempt("to_url", [&] {
    const CORBA::String_var got = root->to_url(":localhost:2809", "a/b c");
    return std::string(got.in());
  });
  attempt_void("unbind", [&] { root->unbind(name_of("thing", "test")); });
  attempt_void("unbind again", [&] { root->unbind(name_of("thing", "test")); });
}

void contexts(CosNaming::NamingContextExt_ptr root, CORBA::Object_ptr object) {
  CosNaming::NamingContext_var inner;
  attempt("bind_new_context", [&] {
    inner = root->bind_new_context(name_of("folder"));
    return std::string(CORBA::is_nil(inner) ? "nil" : "there");
  });
  attempt_void("bind in folder", [&] { root->bind(path_of("folder", "thing"), object); });
  attempt("resolve in folder", [&] {
    const CORBA::Object_var got = inner->resolve(name_of("thing"));
    return same(got, object);
  });
  attempt_void("bind through an object", [&] {
    CosNaming::Name name = path_of("folder", "thing");
    name.length(3);
    name[2].id = "x";
    name[2].kind = "";
    root->bind(name, object);
  });
  attempt_void("destroy full", [&] { inner->destroy(); });
  CosNaming::NamingContext_var other;
  attempt("new_context", [&] {
    other = inner->new_context();
    return std::string(CORBA::is_nil(other) ? "nil" : "there");
  });
  attempt_void("bind_context", [&] { root->bind_context(name_of("shelf"), other); });
  attempt_void("bind_context again", [&] { root->bind_context(name_of("shelf"), other); });
  attempt_void("rebind_context", [&] { root->rebind_context(name_of("shelf"), inner); });
  attempt("resolve by the other way", [&] {
    const CORBA::Object_var got = root->resolve(path_of("shelf", "thing"));
    return same(got, object);
  });
  attempt_void("unbind in folder", [&] { inner->unbind(name_of("thing")); });
  attempt_void("unbind shelf", [&] { root->unbind(name_of("shelf")); });
  attempt_void("unbind folder", [&] { root->unbind(name_of("folder")); });
  attempt_void("destroy", [&] { inner->destroy(); });
  attempt_void("destroy other", [&] { other->destroy(); });
  attempt("after destroy", [&] {
    const CORBA::Object_var got = inner->resolve(name_of("thing"));
    return same(got, object);
  });
}

void lists(CosNaming::NamingContextExt_ptr root, CORBA::Object_ptr object) {
  const CosNaming::NamingContext_var many = root->bind_new_context(name_of("many"));
  for (int i = 0; i < 7; ++i) many->bind(name_of("n" + std::to_string(i)), object);
  CosNaming::BindingList_var list;
  CosNaming::BindingIterator_var rest;
  attempt("list all", [&] {
    many->list(100, list, rest);
    return text_of(list.in()) + (CORBA::is_nil(rest) ? "" : " and an iterator");
  });
  attempt("list 2", [&] {
    many->list(2, list, rest);
    return std::to_string(list->length()) + (CORBA::is_nil(rest) ? "" : " and an iterator");
  });
  if (!CORBA::is_nil(rest)) {
    CosNaming::Binding_var one;
    attempt("next_one", [&] { return std::string(rest->next_one(one) ? "one" : "none"); });
    attempt("next_n 3", [&] {
      const bool more = rest->next_n(3, list);
      return std::to_string(list->length()) + (more ? " more" : " end");
    });
    attempt("next_n 3 again", [&] {
      const bool more = rest->next_n(3, list);
      return std::to_string(list->length()) + (more ? " more" : " end");
    });
    attempt("next_n 3 at the end", [&] {
      const bool more = rest->next_n(3, list);
      return std::to_string(list->length()) + (more ? " more" : " end");
    });
    attempt("next_n 0", [&] {
      const bool more = rest->next_n(0, list);
      return std::to_string(list->length()) + (more ? " more" : " end");
    });
    attempt_void("iterator destroy", [&] { rest->destroy(); });
    attempt("iterator after destroy", [&] { return std::string(rest->next_one(one) ? "one" : "none"); });
  }
  attempt("list 0", [&] {
    many->list(0, list, rest);
    return std::to_string(list->length()) + (CORBA::is_nil(rest) ? "" : " and an iterator");
  });
}

}  // namespace

int naming(const Args& args) {
  const Orb orb(args);
  const CORBA::Object_var found = orb.get()->resolve_initial_references("NameService");
  const CosNaming::NamingContextExt_var root = CosNaming::NamingContextExt::_narrow(found);
  if (CORBA::is_nil(root)) throw Usage{"NameService is no NamingContextExt"};
  CosNaming::BindingList_var list;
  CosNaming::BindingIterator_var rest;
  attempt("root", [&] {
    root->list(100, list, rest);
    return text_of(list.in());
  });
  attempt("is_a NamingContext",
          [&] { return std::string(root->_is_a("IDL:omg.org/CosNaming/NamingContext:1.0") ? "yes" : "no"); });
  for (const std::string& path : args.all("resolve")) {
    attempt("find " + path, [&] {
      const CORBA::Object_var object = root->resolve_str(path.c_str());
      const CosNotifyChannelAdmin::EventChannelFactory_var factory =
          CosNotifyChannelAdmin::EventChannelFactory::_narrow(object);
      return std::string(CORBA::is_nil(factory) ? "another thing" : "factory");
    });
  }
  const CORBA::Object_var object = orb.resolve("corbaloc:iiop:1.2@127.0.0.1:9/thing");
  bindings(root, object);
  contexts(root, object);
  lists(root, object);
  say("done");
  return 0;
}

}  // namespace peer
