// `deploy --manager URL --artifact PATH [--step all|launch|remove|node]`: a plan launcher of the OMG's. `all` tries what goes wrong as well, says
// `running` while the plan runs, and removes it at a line of input; `launch` leaves it, `remove` finds it and ends it, `node` does both by
// a NodeManager.

#include "commands.h"

#include <string>

#include "deployment.hh"
#include "orb.h"

namespace peer {

namespace {

using Deployment::Application;
using Deployment::Application_var;
using Deployment::Connections;
using Deployment::Connections_var;
using Deployment::DeploymentPlan;
using Deployment::Properties;

template <typename Raised>
void refused(const std::string& what, const char* exception, const Raised& raised) {
  say(what + ": " + exception + " " + raised.name.in() + ": " + raised.reason.in());
}

template <typename Call>
void attempt(const std::string& what, Call call) {
  try {
    call();
    say(what + ": done");
  } catch (const Deployment::PlanError& raised) {
    refused(what, "PlanError", raised);
  } catch (const Deployment::StartError& raised) {
    refused(what, "StartError", raised);
  } catch (const Deployment::StopError& raised) {
    refused(what, "StopError", raised);
  } catch (const Deployment::InvalidConnection& raised) {
    refused(what, "InvalidConnection", raised);
  } catch (const Deployment::InvalidProperty& raised) {
    refused(what, "InvalidProperty", raised);
  }
}

void add(Properties& properties, const char* name, double value) {
  const CORBA::ULong last = properties.length();
  properties.length(last + 1);
  properties[last].name = name;
  properties[last].value <<= value;
}

// Two guiders, each in a process of its own.
DeploymentPlan plan_of(const std::string& artifact) {
  DeploymentPlan plan;
  plan.label = "guiding";
  plan.UUID = "guiding-1";
  plan.implementation.length(1);
  plan.implementation[0].name = "Guider";
  plan.implementation[0].artifactRef.length(1);
  plan.implementation[0].artifactRef[0] = 0;
  plan.artifact.length(1);
  plan.artifact[0].name = "guiders";
  plan.artifact[0].location.length(1);
  plan.artifact[0].location[0] = artifact.c_str();
  plan.instance.length(2);
  plan.localityConstraint.length(1);
  plan.localityConstraint[0].constraint = Deployment::PlanDifferentProcess;
  plan.localityConstraint[0].constrainedInstanceRef.length(2);
  for (CORBA::ULong i = 0; i < 2; ++i) {
    plan.instance[i].name = i == 0 ? "north" : "south";
    plan.instance[i].node = "dome";
    plan.instance[i].implementationRef = 0;
    add(plan.instance[i].configProperty, "gain", 0.25 + i);
    plan.localityConstraint[0].constrainedInstanceRef[i] = i;
  }
  return plan;
}

// Ends the application of a manager, and the manager.
template <typename Roots, typename Manager>
void remove(Roots root, Manager manager, Deployment::Application_ptr application) {
  attempt("destroyApplication", [&] { manager->destroyApplication(application); });
  attempt("destroyManager", [&] { root->destroyManager(manager); });
}

Deployment::Application_ptr launch(Deployment::ApplicationManager_ptr manager) {
  Connections_var provided;
  Application_var application = manager->startLaunch(Properties(), provided.out());
  say("launched: " + std::to_string(provided->length()) + " references provided");
  return application._retn();
}

void refusals(Deployment::ExecutionManager_ptr root, const DeploymentPlan& plan) {
  const auto prepare = [&](const DeploymentPlan& of) {
    const Deployment::DomainApplicationManager_var manager =
        root->preparePlan(of, Deployment::ResourceCommitmentManager::_nil());
  };
  DeploymentPlan other = plan;
  other.instance[1].implementationRef = 7;
  attempt("unknown implementation", [&] { prepare(other); });
  other = plan;
  other.artifact[0].location[0] = "nothing.so";
  attempt("unknown artifact", [&] { prepare(other); });
  other = plan;
  other.implementation[0].name = "Sorter";
  attempt("unknown component", [&] { prepare(other); });
}

int all(Deployment::ExecutionManager_ptr root, const DeploymentPlan& plan) {
  refusals(root, plan);
  const auto nothing = Deployment::ResourceCommitmentManager::_nil();
  const Deployment::DomainApplicationManager_var manager = root->preparePlan(plan, nothing);
  const Deployment::DomainApplicationManager_var same = root->preparePlan(plan, nothing);
  say(std::string("prepared twice: ") + (manager->_is_equivalent(same) ? "the same manager" : "another manager"));
  DeploymentPlan other = plan;
  other.instance[0].configProperty[0].value <<= CORBA::Double(2);
  attempt("another plan of the name", [&] { root->preparePlan(other, nothing); });

  const Application_var application = launch(manager);
  attempt("startLaunch again", [&] { const Application_var second = launch(manager); });
  attempt("start", [&] { application->start(); });
  attempt("destroyManager", [&] { root->destroyManager(manager); });
  Connections wrong;
  wrong.length(1);
  wrong[0].name = "frames";
  wrong[0].endpoint.length(1);
  wrong[0].endpoint[0] = CORBA::Object::_duplicate(root);
  attempt("finishLaunch with a reference", [&] { application->finishLaunch(wrong, true); });
  attempt("finishLaunch", [&] { application->finishLaunch(Connections(), false); });
  attempt("start", [&] { application->start(); });

  // As a launcher finds a plan by its UUID.
  Deployment::DomainApplicationManagers_var managers = root->getManagers();
  for (CORBA::ULong i = 0; i < managers->length(); ++i) {
    const Deployment::DeploymentPlan_var found = managers[i]->getPlan();
    Deployment::Applications_var applications = managers[i]->getApplications();
    CORBA::Double gain = 0;
    found->instance[1].configProperty[0].value >>= gain;
    say(std::string("found: ") + found->UUID.in() + " with gain " + std::to_string(gain) + ", " +
        std::to_string(applications->length()) + " applications");
  }
  say("running");
  std::string line;
  hear(line);
  attempt("destroyApplication of nothing", [&] { manager->destroyApplication(Application::_nil()); });
  remove(root, manager.in(), application);
  say("managers left: " + std::to_string(Deployment::DomainApplicationManagers_var(root->getManagers())->length()));
  return 0;
}

}  // namespace

int deploy(const Args& args) {
  const Orb orb(args);
  const CORBA::Object_var object = orb.resolve(args.text("manager", ""));
  const DeploymentPlan plan = plan_of(args.text("artifact", ""));
  const std::string step = args.text("step", "all");
  const auto nothing = Deployment::ResourceCommitmentManager::_nil();
  if (step == "node") {
    const Deployment::NodeManager_var root = Deployment::NodeManager::_narrow(object);
    const Deployment::NodeApplicationManager_var manager = root->preparePlan(plan, nothing);
    const Application_var application = launch(manager);
    attempt("finishLaunch", [&] { application->finishLaunch(Connections(), true); });
    remove(root.in(), manager.in(), application);
    return 0;
  }
  const Deployment::ExecutionManager_var root = Deployment::ExecutionManager::_narrow(object);
  if (CORBA::is_nil(root)) throw Usage{"the object is no ExecutionManager"};
  if (step == "all") return all(root, plan);
  const Deployment::DomainApplicationManager_var manager = root->preparePlan(plan, nothing);
  if (step == "launch") {
    const Application_var application = launch(manager);
    attempt("finishLaunch", [&] { application->finishLaunch(Connections(), true); });
    return 0;
  }
  Deployment::Applications_var applications = manager->getApplications();
  if (applications->length() != 1) throw Usage{"the plan is not launched"};
  remove(root.in(), manager.in(), applications[CORBA::ULong(0)]);
  return 0;
}

}  // namespace peer
