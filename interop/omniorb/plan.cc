// `plan --object URL`: Campanile's scheduling analysis, asked about task sets from the literature and about nonsense.

#include "commands.h"

#include <functional>
#include <string>

#include "Campanile.hh"
#include "orb.h"

namespace peer {

namespace {

constexpr TimeBase::TimeT kMillisecond = 10000;

Campanile::Activity activity(const char* name, TimeBase::TimeT period_ms, TimeBase::TimeT execution_ms,
                             TimeBase::TimeT deadline_ms = 0, TimeBase::TimeT blocking_ms = 0) {
  Campanile::Activity one;
  one.name = name;
  one.channel = 0;
  one.type.domain_name = "Plant";
  one.type.type_name = name;
  one.period = period_ms * kMillisecond;
  one.execution_time = execution_ms * kMillisecond;
  one.deadline = deadline_ms * kMillisecond;
  one.jitter = 0;
  one.blocking = blocking_ms * kMillisecond;
  one.criticality = 0;
  return one;
}

Campanile::ActivitySeq set_of(std::initializer_list<Campanile::Activity> all) {
  Campanile::ActivitySeq set;
  set.length(static_cast<CORBA::ULong>(all.size()));
  CORBA::ULong i = 0;
  for (const Campanile::Activity& one : all) set[i++] = one;
  return set;
}

void attempt(const std::string& what, Campanile::SchedulingService_ptr service, const Campanile::ActivitySeq& set,
             Campanile::SchedulingPolicy policy, CORBA::UShort cpus = 1) {
  static const char* const policies[] = {"auto", "rm", "dm", "edf", "llf", "muf"};
  static const char* const verdicts[] = {"feasible", "infeasible", "undecided"};
  static const char* const kinds[] = {"worst", "at least", "unbounded", "unknown"};
  try {
    const Campanile::Analysis_var analysis = service->analyse(set, policy, cpus);
    say(what + ": " + policies[analysis->policy] + " " + verdicts[analysis->feasibility] + ": " +
        analysis->explanation.in());
    for (CORBA::ULong i = 0; i < analysis->assignments.length(); ++i) {
      const Campanile::Assignment& one = analysis->assignments[i];
      say(what + ": " + one.name.in() + " priority " + std::to_string(one.priority) + " cpu " +
          std::to_string(one.cpu) + " " + kinds[one.kind] + " " + std::to_string(one.response / kMillisecond) +
          " ms late by " + std::to_string(one.late_by / kMillisecond) + " ms");
    }
    const std::string lanes = analysis->lanes.in();
    if (lanes.find("[[channel.lane]]") == std::string::npos) say(what + ": no lanes");
  } catch (const Campanile::InvalidActivity& raised) {
    say(what + ": InvalidActivity " + std::to_string(raised.index) + " " + raised.why.in());
  } catch (const Campanile::InvalidRequest& raised) {
    say(what + ": InvalidRequest " + std::string(raised.why.in()));
  } catch (const CORBA::SystemException& raised) {
    say(what + ": " + raised._name());
  }
}

}  // namespace

int plan(const Args& args) {
  const Orb orb(args);
  const CORBA::Object_var object = orb.resolve(args.text("object", ""));
  const Campanile::SchedulingService_var service = Campanile::SchedulingService::_narrow(object);
  if (CORBA::is_nil(service)) throw Usage{"the object is no SchedulingService"};
  const auto a = Campanile::AUTOMATIC;
  // Burns and Wellings, "Real-Time Systems and Programming Languages": process sets D and A, and the deadline monotonic one.
  attempt("set D", service, set_of({activity("a", 7, 3), activity("b", 12, 3), activity("c", 20, 5)}), a);
  attempt("set A", service, set_of({activity("a", 50, 12), activity("b", 40, 10), activity("c", 30, 10)}), a);
  attempt("deadlines", service,
          set_of({activity("a", 20, 3, 5), activity("b", 15, 3, 7), activity("c", 10, 4, 10), activity("d", 20, 3, 20)}), a);
  attempt("two processors", service, set_of({activity("a", 10, 6), activity("b", 10, 6)}), a, 2);
  attempt("overload", service, set_of({activity("a", 10, 6), activity("b", 10, 6)}), a);
  attempt("edf", service, set_of({activity("short", 4, 2), activity("long", 12, 4)}), Campanile::EARLIEST_DEADLINE);
  attempt("no period", service, set_of({activity("a", 10, 1), activity("b", 0, 1)}), a);
  attempt("nothing", service, set_of({}), a);
  attempt("no processor", service, set_of({activity("a", 10, 1)}), a, 0);
  Campanile::ActivitySeq many;
  many.length(4097);
  for (CORBA::ULong i = 0; i < many.length(); ++i) many[i] = activity(std::to_string(i).c_str(), 10, 1);
  attempt("too many", service, many, a);
  say("done");
  return 0;
}

}  // namespace peer
