// `filters`: every operation of FilterFactory, Filter, MappingFilter and FilterAdmin, good and bad, one line for each
// answer; and every constraint of a file against one event in its three forms.

#include "commands.h"

#include <fstream>

#include <COS/CosNotifyFilter.hh>

#include "answers.h"
#include "campanile_test.hh"
#include "orb.h"

namespace peer {

namespace {

namespace CNF = CosNotifyFilter;

CNF::ConstraintExp constraint(const char* text, const CN::EventTypeSeq& event_types) {
  CNF::ConstraintExp made;
  made.event_types = event_types;
  made.constraint_expr = text;
  return made;
}

CNF::ConstraintExpSeq constraints(const CNF::ConstraintExp& one) {
  CNF::ConstraintExpSeq made;
  made.length(1);
  made[0] = one;
  return made;
}

CNF::MappingConstraintPairSeq pairs(const CNF::ConstraintExp& one, const CORBA::Any& value) {
  CNF::MappingConstraintPairSeq made;
  made.length(1);
  made[0].constraint_expression = one;
  made[0].result_to_set = value;
  return made;
}

CNF::ConstraintIDSeq id_list(CNF::ConstraintID id) {
  CNF::ConstraintIDSeq made;
  made.length(1);
  made[0] = id;
  return made;
}

std::string text_of(const CNF::ConstraintExp& expression) {
  return text_of_types(expression.event_types) + " " + expression.constraint_expr.in();
}

std::string text_of(const CNF::ConstraintInfoSeq& all) {
  std::string line;
  for (CORBA::ULong i = 0; i < all.length(); ++i)
    line += (i == 0 ? "" : ", ") + std::to_string(all[i].constraint_id) + " " + text_of(all[i].constraint_expression);
  return line;
}

std::string text_of(const CNF::MappingConstraintInfoSeq& all) {
  std::string line;
  for (CORBA::ULong i = 0; i < all.length(); ++i)
    line += (i == 0 ? "" : ", ") + std::to_string(all[i].constraint_id) + " " + text_of(all[i].constraint_expression) +
            " -> " + peer::text_of(all[i].value);
  return line;
}

// `attempt` with what the exceptions of this module hold.
void ask(const std::string& name, const std::function<std::string()>& call) {
  attempt(name, [&]() -> std::string {
    try {
      return call();
    } catch (const CNF::InvalidConstraint& raised) {
      return "InvalidConstraint " + text_of(raised.constr);
    } catch (const CNF::ConstraintNotFound& raised) {
      return "ConstraintNotFound " + std::to_string(raised.id);
    } catch (const CNF::InvalidValue& raised) {
      return "InvalidValue " + text_of(raised.constr) + " -> " + peer::text_of(raised.value);
    }
  });
}

void ask_void(const std::string& name, const std::function<void()>& call) {
  ask(name, [&call] {
    call();
    return std::string("ok");
  });
}

CORBA::Any any_short(CORBA::Short value) {
  CORBA::Any made;
  made <<= value;
  return made;
}

CORBA::Any any_time(CORBA::ULongLong value) {
  CORBA::Any made;
  made <<= value;
  return made;
}

CampanileTest::Nested body() {
  CampanileTest::Nested made;
  made.name = "M51";
  made.outline.from.x = 1;
  made.outline.from.y = -2;
  made.outline.from.z = 0.5;
  made.outline.weight = 9;
  made.outline.to.x = 100000;
  made.outline.to.y = 7;
  made.outline.to.z = -1.5;
  made.tint = CampanileTest::blue;
  made.origin.x = 0;
  made.origin.y = 0;
  made.origin.z = 3.25;
  return made;
}

CN::PropertySeq data() {
  CN::PropertySeq made;
  made.length(9);
  made[0].name = "antenna";
  made[0].value <<= "DV01";
  made[1].name = "value";
  made[1].value <<= static_cast<CORBA::Double>(3.25);
  made[2].name = "count";
  made[2].value <<= static_cast<CORBA::ULong>(7);
  made[3].name = "tint";
  made[3].value <<= CampanileTest::green;
  made[4].name = "healthy";
  made[4].value <<= CORBA::Any::from_boolean(true);
  CampanileTest::Point point;
  point.x = 5;
  point.y = 6;
  point.z = 7.5;
  made[5].name = "point";
  made[5].value <<= point;
  CampanileTest::StringSeq names;
  names.length(3);
  names[0] = "alpha";
  names[1] = "beta";
  names[2] = "gamma";
  made[6].name = "names";
  made[6].value <<= names;
  CampanileTest::ByColour choice;
  choice.text("chosen");
  made[7].name = "choice";
  made[7].value <<= choice;
  made[8].name = "letter";
  made[8].value <<= CORBA::Any::from_char('q');
  return made;
}

CN::StructuredEvent event() {
  CN::StructuredEvent made;
  made.header.fixed_header.event_type.domain_name = "Telescope";
  made.header.fixed_header.event_type.type_name = "Status";
  made.header.fixed_header.event_name = "noon";
  made.header.variable_header.length(2);
  made.header.variable_header[0].name = "Priority";
  made.header.variable_header[0].value = any_short(5);
  made.header.variable_header[1].name = "Timeout";
  made.header.variable_header[1].value = any_time(36000000000ULL);
  made.filterable_data = data();
  made.remainder_of_body <<= body();
  return made;
}

class Callback : public POA_CosNotifyComm::NotifySubscribe {
  void subscription_change(const CN::EventTypeSeq& added, const CN::EventTypeSeq& removed) override {
    say("told: subscription_change +" + text_of_types(added) + " -" + text_of_types(removed));
  }
};

// A filter that is the client's own: the service calls it.
class OwnFilter : public POA_CosNotifyFilter::Filter {
  char* constraint_grammar() override { return CORBA::string_dup("OWN"); }
  CNF::ConstraintInfoSeq* add_constraints(const CNF::ConstraintExpSeq&) override { throw CORBA::NO_IMPLEMENT(); }
  void modify_constraints(const CNF::ConstraintIDSeq&, const CNF::ConstraintInfoSeq&) override {
    throw CORBA::NO_IMPLEMENT();
  }
  CNF::ConstraintInfoSeq* get_constraints(const CNF::ConstraintIDSeq&) override { throw CORBA::NO_IMPLEMENT(); }
  CNF::ConstraintInfoSeq* get_all_constraints() override { return new CNF::ConstraintInfoSeq; }
  void remove_all_constraints() override { throw CORBA::NO_IMPLEMENT(); }
  void destroy() override {}
  CORBA::Boolean match(const CORBA::Any&) override { return true; }
  CORBA::Boolean match_structured(const CN::StructuredEvent&) override { return true; }
  CORBA::Boolean match_typed(const CN::PropertySeq&) override { return true; }
  CNF::CallbackID attach_callback(CosNotifyComm::NotifySubscribe_ptr) override { throw CORBA::NO_IMPLEMENT(); }
  void detach_callback(CNF::CallbackID) override { throw CORBA::NO_IMPLEMENT(); }
  CNF::CallbackIDSeq* get_callbacks() override { throw CORBA::NO_IMPLEMENT(); }
};

class Tour {
public:
  explicit Tour(const Args& args) : orb_(args), args_(args), channel_(find_channel(orb_, args)) {}

  void factory() {
    attempt("factory there", [&] {
      factory_ = channel_->default_filter_factory();
      return yes_no(factory_->_is_a("IDL:omg.org/CosNotifyFilter/FilterFactory:1.0"));
    });
    for (const char* const grammar : {"EXTENDED_TCL", "ETCL", "TCL", "SQL", ""})
      attempt(std::string("factory create_filter ") + grammar, [&] {
        const CNF::Filter_var made = factory_->create_filter(grammar);
        const CORBA::String_var answered = made->constraint_grammar();
        made->destroy();
        return std::string(answered.in());
      });
    attempt("factory create_filter", [&] {
      filter_ = factory_->create_filter("EXTENDED_TCL");
      return yes_no(filter_->_is_a("IDL:omg.org/CosNotifyFilter/Filter:1.0"));
    });
    attempt("factory create_mapping_filter", [&] {
      mapping_ = factory_->create_mapping_filter("EXTENDED_TCL", any_short(1));
      return yes_no(mapping_->_is_a("IDL:omg.org/CosNotifyFilter/MappingFilter:1.0"));
    });
    attempt("factory create_mapping_filter SQL", [&] {
      const CNF::MappingFilter_var made = factory_->create_mapping_filter("SQL", any_short(1));
      return std::string("there");
    });
  }

  void filter() {
    CNF::ConstraintID first = 0;
    CNF::ConstraintID second = 0;
    ask("filter add_constraints", [&] {
      CNF::ConstraintInfoSeq_var made =
          filter_->add_constraints(constraints(constraint("$value > 3", types({"Telescope", "Status"}))));
      first = made[0].constraint_id;
      return text_of(made.in());
    });
    ask("filter add_constraints two", [&] {
      CNF::ConstraintExpSeq two;
      two.length(2);
      two[0] = constraint("$count == 8", types({"*", "*"}));
      two[1] = constraint("", types({"Weather", "Wind"}));
      CNF::ConstraintInfoSeq_var made = filter_->add_constraints(two);
      second = made[0].constraint_id;
      return text_of(made.in());
    });
    ask("filter add_constraints bad", [&] {
      CNF::ConstraintInfoSeq_var made =
          filter_->add_constraints(constraints(constraint("$value >", types({"*", "*"}))));
      return text_of(made.in());
    });
    ask("filter add_constraints one bad of two", [&] {
      CNF::ConstraintExpSeq two;
      two.length(2);
      two[0] = constraint("$count == 9", types({"*", "*"}));
      two[1] = constraint("((", types({"*", "*"}));
      CNF::ConstraintInfoSeq_var made = filter_->add_constraints(two);
      return text_of(made.in());
    });
    ask("filter get_all_constraints", [&] { return text_of(CNF::ConstraintInfoSeq_var(filter_->get_all_constraints()).in()); });
    ask("filter get_constraints",
        [&] { return text_of(CNF::ConstraintInfoSeq_var(filter_->get_constraints(id_list(first))).in()); });
    ask("filter get_constraints 999",
        [&] { return text_of(CNF::ConstraintInfoSeq_var(filter_->get_constraints(id_list(999))).in()); });
    ask("filter match_structured", [&] { return yes_no(filter_->match_structured(event())); });
    ask_void("filter modify_constraints", [&] { filter_->modify_constraints(id_list(second), modified(first, "$value > 4")); });
    ask("filter match_structured after", [&] { return yes_no(filter_->match_structured(event())); });
    ask_void("filter modify_constraints unknown", [&] { filter_->modify_constraints(id_list(second), modified(first, "TRUE")); });
    ask_void("filter modify_constraints unknown id", [&] { filter_->modify_constraints({}, modified(999, "TRUE")); });
    ask_void("filter modify_constraints bad", [&] { filter_->modify_constraints(id_list(first), modified(first + 2, "1 +")); });
    ask("filter get_all_constraints after", [&] { return text_of(CNF::ConstraintInfoSeq_var(filter_->get_all_constraints()).in()); });
    callbacks();
    ask_void("filter remove_all_constraints", [&] { filter_->remove_all_constraints(); });
    ask("filter get_all_constraints empty", [&] { return text_of(CNF::ConstraintInfoSeq_var(filter_->get_all_constraints()).in()); });
    ask("filter match_structured empty", [&] { return yes_no(filter_->match_structured(event())); });
  }

  void forms() {
    ask_void("filter add for forms",
             [&] { filter_->add_constraints(constraints(constraint("$x > 4", CN::EventTypeSeq()))); });
    CORBA::Any any;
    CampanileTest::Point point;
    point.x = 5;
    point.y = 0;
    point.z = 0;
    any <<= point;
    ask("filter match any", [&] { return yes_no(filter_->match(any)); });
    point.x = 4;
    any <<= point;
    ask("filter match any less", [&] { return yes_no(filter_->match(any)); });
    ask("filter match empty any", [&] { return yes_no(filter_->match(CORBA::Any())); });
    CN::PropertySeq properties;
    properties.length(1);
    properties[0].name = "x";
    properties[0].value <<= static_cast<CORBA::Float>(4.5);
    ask("filter match_typed", [&] { return yes_no(filter_->match_typed(properties)); });
    properties[0].value <<= "five";
    ask("filter match_typed text", [&] { return yes_no(filter_->match_typed(properties)); });
  }

  void mapping() {
    CNF::ConstraintID first = 0;
    ask("mapping constraint_grammar", [&] { return std::string(CORBA::String_var(mapping_->constraint_grammar()).in()); });
    ask("mapping value_type", [&] { return std::to_string(CORBA::TypeCode_var(mapping_->value_type())->kind()); });
    ask("mapping default_value", [&] { return peer::text_of(CORBA::Any_var(mapping_->default_value()).in()); });
    ask("mapping add_mapping_constraints", [&] {
      CNF::MappingConstraintInfoSeq_var made =
          mapping_->add_mapping_constraints(pairs(constraint("$value > 3", types({"*", "*"})), any_short(7)));
      first = made[0].constraint_id;
      return text_of(made.in());
    });
    ask("mapping add_mapping_constraints wrong type", [&] {
      CNF::MappingConstraintInfoSeq_var made =
          mapping_->add_mapping_constraints(pairs(constraint("TRUE", types({"*", "*"})), any_time(7)));
      return text_of(made.in());
    });
    ask("mapping add_mapping_constraints bad", [&] {
      CNF::MappingConstraintInfoSeq_var made =
          mapping_->add_mapping_constraints(pairs(constraint("or", types({"*", "*"})), any_short(7)));
      return text_of(made.in());
    });
    ask("mapping get_mapping_constraints",
        [&] { return text_of(CNF::MappingConstraintInfoSeq_var(mapping_->get_mapping_constraints(id_list(first))).in()); });
    ask("mapping get_mapping_constraints 999",
        [&] { return text_of(CNF::MappingConstraintInfoSeq_var(mapping_->get_mapping_constraints(id_list(999))).in()); });
    ask("mapping match_structured", [&] {
      CORBA::Any_var result;
      const bool matched = mapping_->match_structured(event(), result);
      return yes_no(matched) + " " + peer::text_of(result.in());
    });
    ask_void("mapping modify_mapping_constraints", [&] {
      CNF::MappingConstraintInfoSeq change;
      change.length(1);
      change[0].constraint_expression = constraint("$value > 4", types({"*", "*"}));
      change[0].constraint_id = first;
      change[0].value = any_short(9);
      mapping_->modify_mapping_constraints({}, change);
    });
    ask_void("mapping modify_mapping_constraints unknown", [&] { mapping_->modify_mapping_constraints(id_list(999), {}); });
    ask("mapping get_all_mapping_constraints",
        [&] { return text_of(CNF::MappingConstraintInfoSeq_var(mapping_->get_all_mapping_constraints()).in()); });
    ask("mapping match_structured after", [&] {
      CORBA::Any_var result;
      const bool matched = mapping_->match_structured(event(), result);
      return yes_no(matched) + " " + peer::text_of(result.in());
    });
    ask("mapping match", [&] {
      CORBA::Any_var result;
      CORBA::Any any;
      any <<= static_cast<CORBA::Long>(3);
      const bool matched = mapping_->match(any, result);
      return yes_no(matched) + " " + peer::text_of(result.in());
    });
    ask("mapping match_typed", [&] {
      CORBA::Any_var result;
      const bool matched = mapping_->match_typed(data(), result);
      return yes_no(matched) + " " + peer::text_of(result.in());
    });
    ask_void("mapping remove_all_mapping_constraints", [&] { mapping_->remove_all_mapping_constraints(); });
    ask("mapping get_all_mapping_constraints empty",
        [&] { return text_of(CNF::MappingConstraintInfoSeq_var(mapping_->get_all_mapping_constraints()).in()); });
  }

  void admin() {
    const CNA::ConsumerAdmin_var consumers = channel_->default_consumer_admin();
    const CNA::SupplierAdmin_var suppliers = channel_->default_supplier_admin();
    CNA::ProxyID id = 0;
    const CNA::ProxySupplier_var supplier = consumers->obtain_notification_push_supplier(CNA::STRUCTURED_EVENT, id);
    const CNA::ProxyConsumer_var consumer = suppliers->obtain_notification_push_consumer(CNA::STRUCTURED_EVENT, id);
    holds("consumers", consumers);
    holds("suppliers", suppliers);
    holds("proxy supplier", supplier);
    holds("proxy consumer", consumer);
    // The same filter at several objects.
    ask("shared", [&] {
      const CNF::FilterID one = consumers->add_filter(filter_);
      const CNF::FilterID other = supplier->add_filter(filter_);
      const CNF::Filter_var got = consumers->get_filter(one);
      const CNF::Filter_var also = supplier->get_filter(other);
      return same(got, also);
    });
    attribute("consumers priority_filter", [&] { return consumers->priority_filter(); },
              [&](CNF::MappingFilter_ptr to) { consumers->priority_filter(to); });
    attribute("consumers lifetime_filter", [&] { return consumers->lifetime_filter(); },
              [&](CNF::MappingFilter_ptr to) { consumers->lifetime_filter(to); });
    attribute("proxy supplier priority_filter", [&] { return supplier->priority_filter(); },
              [&](CNF::MappingFilter_ptr to) { supplier->priority_filter(to); });
    attribute("proxy supplier lifetime_filter", [&] { return supplier->lifetime_filter(); },
              [&](CNF::MappingFilter_ptr to) { supplier->lifetime_filter(to); });
    const CORBA::Object_var object = orb_.serve(new OwnFilter, "own-filter");
    const CNF::Filter_var own = CNF::Filter::_narrow(object);
    ask("proxy supplier own filter", [&] {
      const CNF::Filter_var got = supplier->get_filter(supplier->add_filter(own));
      const CORBA::String_var grammar = got->constraint_grammar();
      return std::string(grammar.in());
    });
    ask_void("filter destroy", [&] { filter_->destroy(); });
    ask("filter after destroy", [&] { return std::string(CORBA::String_var(filter_->constraint_grammar()).in()); });
    ask("consumers get_all_filters after destroy",
        [&] { return ids(CNF::FilterIDSeq_var(consumers->get_all_filters()).in()); });
    ask_void("mapping destroy", [&] { mapping_->destroy(); });
    ask("mapping after destroy", [&] { return std::string(CORBA::String_var(mapping_->constraint_grammar()).in()); });
  }

  // Each line of a file is a verdict and a constraint, which the event matches or does not.
  void language() {
    if (!args_.has("constraints")) return;
    const CNF::Filter_var filter = factory_->create_filter("EXTENDED_TCL");
    std::ifstream lines(args_.text("constraints", ""));
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] == '#') continue;
      const std::string text = line.substr(line.find(' ') + 1);
      ask(text, [&] {
        filter->remove_all_constraints();
        const CNF::ConstraintInfoSeq_var made =
            filter->add_constraints(constraints(constraint(text.c_str(), CN::EventTypeSeq())));
        CORBA::Any whole;
        whole <<= event();
        return yes_no(filter->match_structured(event())) + " " + yes_no(filter->match(whole));
      });
    }
    filter->destroy();
  }

private:
  static CNF::ConstraintInfoSeq modified(CNF::ConstraintID id, const char* text) {
    CNF::ConstraintInfoSeq made;
    made.length(1);
    made[0].constraint_expression = constraint(text, types({"*", "*"}));
    made[0].constraint_id = id;
    return made;
  }

  void callbacks() {
    const CORBA::Object_var object = orb_.serve(new Callback, "callback");
    const CosNotifyComm::NotifySubscribe_var self = CosNotifyComm::NotifySubscribe::_narrow(object);
    CNF::CallbackID id = 0;
    ask_void("filter attach_callback", [&] { id = filter_->attach_callback(self); });
    ask("filter get_callbacks", [&] { return std::to_string(CNF::CallbackIDSeq_var(filter_->get_callbacks())->length()); });
    ask_void("filter detach_callback", [&] { filter_->detach_callback(id); });
    ask_void("filter detach_callback again", [&] { filter_->detach_callback(id); });
    ask("filter get_callbacks after",
        [&] { return std::to_string(CNF::CallbackIDSeq_var(filter_->get_callbacks())->length()); });
    ask_void("filter attach_callback nil",
             [&] { filter_->attach_callback(CosNotifyComm::NotifySubscribe::_nil()); });
  }

  void holds(const std::string& name, CNF::FilterAdmin_ptr holder) {
    CNF::FilterID id = 0;
    ask_void(name + " add_filter", [&] { id = holder->add_filter(filter_); });
    ask(name + " get_filter", [&] {
      const CNF::Filter_var got = holder->get_filter(id);
      return same(got, filter_);
    });
    ask(name + " get_all_filters", [&] { return std::to_string(CNF::FilterIDSeq_var(holder->get_all_filters())->length()); });
    ask_void(name + " remove_filter", [&] { holder->remove_filter(id); });
    ask_void(name + " remove_filter again", [&] { holder->remove_filter(id); });
    ask(name + " get_filter after", [&] {
      const CNF::Filter_var got = holder->get_filter(id);
      return same(got, filter_);
    });
    ask_void(name + " add_filter nil", [&] { holder->add_filter(CNF::Filter::_nil()); });
    ask_void(name + " add_filter twice", [&] {
      holder->add_filter(filter_);
      holder->add_filter(filter_);
    });
    ask_void(name + " remove_all_filters", [&] { holder->remove_all_filters(); });
    ask(name + " get_all_filters after", [&] { return ids(CNF::FilterIDSeq_var(holder->get_all_filters()).in()); });
  }

  void attribute(const std::string& name, const std::function<CNF::MappingFilter_ptr()>& get,
                 const std::function<void(CNF::MappingFilter_ptr)>& set) {
    ask_void(name + " set", [&] { set(mapping_); });
    ask(name + " get", [&] {
      const CNF::MappingFilter_var got = get();
      return same(got, mapping_);
    });
    ask_void(name + " set nil", [&] { set(CNF::MappingFilter::_nil()); });
    ask(name + " get nil", [&] {
      const CNF::MappingFilter_var got = get();
      return std::string(CORBA::is_nil(got) ? "nil" : "there");
    });
  }

  Orb orb_;
  const Args& args_;
  CNA::EventChannel_var channel_;
  CNF::FilterFactory_var factory_;
  CNF::Filter_var filter_;
  CNF::MappingFilter_var mapping_;
};

}  // namespace

int filters(const Args& args) {
  Tour tour(args);
  tour.factory();
  tour.filter();
  tour.forms();
  tour.mapping();
  tour.language();
  tour.admin();
  say("done");
  return 0;
}

}  // namespace peer
