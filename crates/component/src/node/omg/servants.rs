//! The objects that a launcher calls: arguments, results and exceptions of the operations.

use super::managers::{Fault, Managers, Prepared, Refused, Role};
use super::plan::{Connection, DeploymentPlan, Property};
use client::{Marshal, Servant, ServantError, Unmarshal};
use giop::cdr::{ReadError, Reader, Writer};
use giop::exception::Kind;
use giop::ior::Ior;
use giop::typecode::Work;
use std::sync::Arc;

/// Limits of the Anys of a message: a value without octets is a step as well. Octets that a step takes in memory, at most about.
const WORK_STEPS: u32 = 1 << 18;
const WORK_DEPTH: u32 = 64;
const STEP_BYTES: usize = 128;

/// Bases of the interfaces of managers and applications.
const APPLICATION_MANAGER: &str = "IDL:Deployment/ApplicationManager:1.0";
const APPLICATION: &str = "IDL:Deployment/Application:1.0";

impl Fault {
    const fn id(self) -> &'static str {
        match self {
            Self::Plan => "IDL:Deployment/PlanError:1.0",
            Self::Start => "IDL:Deployment/StartError:1.0",
            Self::Stop => "IDL:Deployment/StopError:1.0",
            Self::Property => "IDL:Deployment/InvalidProperty:1.0",
            Self::Connection => "IDL:Deployment/InvalidConnection:1.0",
        }
    }
}

/// The exception for what is refused: its name and its reason.
fn raised((fault, problem): Refused) -> ServantError {
    ServantError::user_with(fault.id(), move |writer| {
        writer.string(&problem.place);
        writer.string(&problem.reason);
    })
}

/// `ExecutionManager` or `NodeManager`.
pub(crate) struct Root {
    pub(crate) role: Role,
    pub(crate) managers: Arc<Managers>,
}

impl Root {
    fn prepare(&self, args: &mut Reader<'_>) -> Result<Ior, ServantError> {
        let _one_at_a_time = self.managers.preparing().map_err(raised)?;
        let (plan, octets) = read::<DeploymentPlan>(args)?;
        // Nothing is committed by it: plans with resources are refused.
        Ior::read(args)?;
        self.managers.prepare(self.role, plan, octets).map_err(raised)
    }
}

impl Servant for Root {
    fn type_id(&self) -> &str {
        match self.role {
            Role::Domain => "IDL:Deployment/ExecutionManager:1.0",
            Role::Node => "IDL:Deployment/NodeManager:1.0",
        }
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
        match (operation, self.role) {
            ("preparePlan", _) => self.prepare(args)?.write(reply),
            ("destroyManager", _) => self.managers.destroy(self.role, &Ior::read(args)?).map_err(raised)?,
            ("getManagers", Role::Domain) => write(&self.managers.references(self.role), reply)?,
            // There is no target manager whose domain it could join, and nothing that measures resources.
            ("joinDomain" | "leaveDomain" | "getDynamicResources", Role::Node) => {
                return Err(ServantError::system(Kind::NoImplement));
            }
            _ => return Err(ServantError::bad_operation()),
        }
        Ok(())
    }
}

/// `DomainApplicationManager` or `NodeApplicationManager`.
pub(crate) struct ManagerServant {
    pub(crate) managers: Arc<Managers>,
    pub(crate) prepared: Arc<Prepared>,
}

impl Servant for ManagerServant {
    fn type_id(&self) -> &str {
        match self.prepared.role {
            Role::Domain => "IDL:Deployment/DomainApplicationManager:1.0",
            Role::Node => "IDL:Deployment/NodeApplicationManager:1.0",
        }
    }

    fn supports(&self, repository_id: &str) -> bool {
        repository_id == APPLICATION_MANAGER
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
        let Self { managers, prepared } = self;
        match (operation, prepared.role) {
            ("startLaunch", _) => {
                let (properties, _) = read::<Vec<Property>>(args)?;
                managers.start_launch(prepared, &properties).map_err(raised)?.write(reply);
                // The plan has no ports of its own, and so provides no references.
                reply.length(0);
            }
            ("destroyApplication", _) => {
                managers.destroy_application(prepared, &Ior::read(args)?).map_err(raised)?;
            }
            ("getApplications", Role::Domain) => {
                write(&prepared.reference().into_iter().collect::<Vec<_>>(), reply)?;
            }
            ("getPlan", Role::Domain) => write(&prepared.plan, reply)?,
            _ => return Err(ServantError::bad_operation()),
        }
        Ok(())
    }
}

/// `DomainApplication` or `NodeApplication`.
pub(crate) struct ApplicationServant {
    pub(crate) managers: Arc<Managers>,
    pub(crate) prepared: Arc<Prepared>,
}

impl Servant for ApplicationServant {
    fn type_id(&self) -> &str {
        match self.prepared.role {
            Role::Domain => "IDL:Deployment/DomainApplication:1.0",
            Role::Node => "IDL:Deployment/NodeApplication:1.0",
        }
    }

    fn supports(&self, repository_id: &str) -> bool {
        repository_id == APPLICATION
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, _: &mut Writer<'_>) -> Result<(), ServantError> {
        let Self { managers, prepared } = self;
        match operation {
            "finishLaunch" => {
                let (connections, is_start) = (read::<Vec<Connection>>(args)?.0, args.bool()?);
                managers.finish_launch(prepared, &connections, is_start).map_err(raised)
            }
            "start" => managers.start(prepared).map_err(raised),
            _ => Err(ServantError::bad_operation()),
        }
    }
}

/// Reads an argument. Returns it with its size in memory, approximately.
fn read<T: Unmarshal>(args: &mut Reader<'_>) -> Result<(T, usize), ReadError> {
    let (mut work, octets) = (Work::new(WORK_STEPS, WORK_DEPTH), args.remaining());
    let value = T::unmarshal(args, &mut work)?;
    let steps = usize::try_from(WORK_STEPS - work.steps_left()).unwrap_or(usize::MAX);
    Ok((value, (octets - args.remaining()).saturating_add(steps.saturating_mul(STEP_BYTES))))
}

/// Writes a result.
fn write(result: &impl Marshal, reply: &mut Writer<'_>) -> Result<(), ServantError> {
    // What was read can be written.
    result.marshal(reply).map_err(|_| ServantError::system(Kind::Internal))
}
