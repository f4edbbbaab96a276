//! The OMG's deployment plan as it goes over the wire: the structs of module `Deployment` (D&C 4.0, 10.6), with the members in their order.
//!
//! Enumerators are numbers here, so that one that is not known is refused where it stands, and not with the whole message.

use client::idl_struct;
use giop::ior::Ior;
use giop::typecode::TypeCode;
use giop::value::AnyValue;

/// Kinds of ports by their numbers (`CCMComponentPortKind`).
pub(crate) const PORT_KINDS: [&str; 8] = [
    "Facet",
    "SimplexReceptacle",
    "MultiplexReceptacle",
    "EventEmitter",
    "EventPublisher",
    "EventConsumer",
    "ExtendedPort",
    "MirrorPort",
];

/// Constraints on processes by their numbers (`PlanLocalityKind`).
pub(crate) const LOCALITY_KINDS: [&str; 3] = ["PlanSameProcess", "PlanDifferentProcess", "PlanNoConstraint"];

idl_struct! {
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Property {
        pub(crate) name: String,
        pub(crate) value: AnyValue,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Requirement {
        pub(crate) name: String,
        pub(crate) resource_type: String,
        pub(crate) property: Vec<Property>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct ComponentPortDescription {
        pub(crate) name: String,
        pub(crate) specific_type: String,
        pub(crate) supported_type: Vec<String>,
        pub(crate) provider: bool,
        pub(crate) exclusive_provider: bool,
        pub(crate) exclusive_user: bool,
        pub(crate) optional: bool,
        pub(crate) kind: u32,
        pub(crate) template_param: Vec<String>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct ComponentPropertyDescription {
        pub(crate) name: String,
        pub(crate) type_code: TypeCode,
    }

    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct ComponentInterfaceDescription {
        pub(crate) label: String,
        pub(crate) uuid: String,
        pub(crate) specific_type: String,
        pub(crate) supported_type: Vec<String>,
        pub(crate) idl_file: Vec<String>,
        pub(crate) config_property: Vec<Property>,
        pub(crate) port: Vec<ComponentPortDescription>,
        pub(crate) property: Vec<ComponentPropertyDescription>,
        pub(crate) info_property: Vec<Property>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct MonolithicDeploymentDescription {
        pub(crate) name: String,
        pub(crate) source: Vec<String>,
        pub(crate) artifact_ref: Vec<u32>,
        pub(crate) exec_parameter: Vec<Property>,
        pub(crate) deploy_requirement: Vec<Requirement>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct InstanceResourceDeploymentDescription {
        pub(crate) resource_usage: u32,
        pub(crate) requirement_name: String,
        pub(crate) resource_name: String,
        pub(crate) property: Vec<Property>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct InstanceDeploymentDescription {
        pub(crate) name: String,
        pub(crate) node: String,
        pub(crate) source: Vec<String>,
        pub(crate) implementation_ref: u32,
        pub(crate) config_property: Vec<Property>,
        pub(crate) deployed_resource: Vec<InstanceResourceDeploymentDescription>,
        pub(crate) deployed_shared_resource: Vec<InstanceResourceDeploymentDescription>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct ComponentExternalPortEndpoint {
        pub(crate) port_name: String,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct PlanSubcomponentPortEndpoint {
        pub(crate) port_name: String,
        pub(crate) provider: bool,
        pub(crate) kind: u32,
        pub(crate) instance_ref: u32,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct ExternalReferenceEndpoint {
        pub(crate) location: String,
        pub(crate) provider: bool,
        pub(crate) port_name: String,
        pub(crate) supported_type: Vec<String>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct ConnectionResourceDeploymentDescription {
        pub(crate) target_name: String,
        pub(crate) requirement_name: String,
        pub(crate) resource_name: String,
        pub(crate) property: Vec<Property>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct PlanConnectionDescription {
        pub(crate) name: String,
        pub(crate) source: Vec<String>,
        pub(crate) deploy_requirement: Vec<Requirement>,
        pub(crate) external_endpoint: Vec<ComponentExternalPortEndpoint>,
        pub(crate) internal_endpoint: Vec<PlanSubcomponentPortEndpoint>,
        pub(crate) external_reference: Vec<ExternalReferenceEndpoint>,
        pub(crate) deployed_resource: Vec<ConnectionResourceDeploymentDescription>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct PlanSubcomponentPropertyReference {
        pub(crate) property_name: String,
        pub(crate) instance_ref: u32,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct PlanPropertyMapping {
        pub(crate) name: String,
        pub(crate) source: Vec<String>,
        pub(crate) external_name: String,
        pub(crate) delegates_to: Vec<PlanSubcomponentPropertyReference>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct ImplementationDependency {
        pub(crate) required_type: String,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct ResourceDeploymentDescription {
        pub(crate) requirement_name: String,
        pub(crate) resource_name: String,
        pub(crate) property: Vec<Property>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct ArtifactDeploymentDescription {
        pub(crate) name: String,
        pub(crate) location: Vec<String>,
        pub(crate) node: String,
        pub(crate) source: Vec<String>,
        pub(crate) exec_parameter: Vec<Property>,
        pub(crate) deploy_requirement: Vec<Requirement>,
        pub(crate) deployed_resource: Vec<ResourceDeploymentDescription>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct PlanLocality {
        pub(crate) constraint: u32,
        pub(crate) constrained_instance_ref: Vec<u32>,
    }

    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct DeploymentPlan {
        pub(crate) label: String,
        pub(crate) uuid: String,
        pub(crate) realizes: ComponentInterfaceDescription,
        pub(crate) implementation: Vec<MonolithicDeploymentDescription>,
        pub(crate) instance: Vec<InstanceDeploymentDescription>,
        pub(crate) connection: Vec<PlanConnectionDescription>,
        pub(crate) external_property: Vec<PlanPropertyMapping>,
        pub(crate) depends_on: Vec<ImplementationDependency>,
        pub(crate) artifact: Vec<ArtifactDeploymentDescription>,
        pub(crate) info_property: Vec<Property>,
        pub(crate) locality_constraint: Vec<PlanLocality>,
    }

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Connection {
        pub(crate) name: String,
        pub(crate) endpoint: Vec<Ior>,
    }
}
