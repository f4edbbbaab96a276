//! A launcher of ours against a node manager whose components are a script.

use super::managers::MANAGERS_MAX;
use super::plan::{
    ArtifactDeploymentDescription, Connection, DeploymentPlan, InstanceDeploymentDescription,
    MonolithicDeploymentDescription, PlanConnectionDescription, PlanLocality, PlanSubcomponentPortEndpoint, Property,
};
use super::{CONNECTIONS_MAX, MESSAGE_BYTES_MAX};
use crate::import::{Descriptor, import_plan, import_struct};
use crate::node::{Node, NodeAnswer, NodeRequest, NodeSettings, NodeStatus};
use client::{InvokeError, Marshal, ObjectRef, Orb, OrbOptions, OrbTls, Unmarshal};
use giop::ior::Ior;
use giop::typecode::TypeCode;
use giop::value::{AnyValue, Value};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use testing::certificates::{Authority, Certified};
use testing::{TempPath, patient, wait_until};

/// What serves the components of shared objects. It fails to start where its folder has a file `break`.
const OBJECTS: &str = r#"
[ "$1" = --describe ] && exec cat "${0%/*}/description.toml"
echo configured
read -r line || exit 0
[ -e "${0%/*}/break" ] && echo "not today" >&2 && exit 4
echo started
exec cat
"#;

const DESCRIPTION: &str = "[components.Thing]\nsinks = {}\nsources = {}\nothers = {}\ntimers_ns = {}\nproperties = { does = \"String\" }\noptional = [\"does\"]\n";

struct Stand {
    folder: TempPath,
    settings: NodeSettings,
    node: Option<Node>,
    orb: Orb,
}

impl Stand {
    /// A node manager with an end point, and a launcher with these options.
    fn with(giop: &str, options: OrbOptions) -> Self {
        let folder = TempPath::folder("giop");
        std::fs::create_dir(folder.join("opt")).unwrap();
        for (name, text) in [("objects", OBJECTS), ("description.toml", DESCRIPTION), ("libthing.so", "")] {
            std::fs::write(folder.join("opt").join(name), text).unwrap();
        }
        let user = if rustix::process::geteuid().is_root() { "user = 'root'\n" } else { "" };
        let path = folder.path();
        let text = format!(
            "state = '{path}/state'\nartifacts = ['{path}/opt']\n{user}[giop]\nlisten = '127.0.0.1:0'\nname = 'dome'\nior_folder = '{path}'\n{giop}"
        );
        let settings = NodeSettings::parse(&text).unwrap();
        let mut stand = Self { folder, settings, node: None, orb: Orb::new(options) };
        stand.start();
        stand
    }

    fn new() -> Self {
        Self::with("plain = true", OrbOptions::default())
    }

    fn start(&mut self) {
        let objects = vec!["sh".into(), self.folder.join("opt/objects").into()];
        // A child that another test has just forked has the lock of the node before until it executes its program.
        wait_until("the node's folder to be free", || {
            let node = Node::start(&self.settings, &self.folder.join("node.sock"), objects.clone());
            let is_free = node.as_ref().err().is_none_or(|reason| !reason.contains("another node manager has it"));
            self.node = is_free.then(|| node.unwrap());
            is_free
        });
    }

    fn address(&self) -> &str {
        self.node.as_ref().unwrap().execution_manager().unwrap()
    }

    /// The execution manager, by its file.
    fn manager(&self) -> ObjectRef {
        self.orb.resolve(&format!("{}/ExecutionManager.ior", self.folder.path())).unwrap()
    }

    /// A connection that is no launcher's.
    fn connect(&self) -> TcpStream {
        let address = self.manager().ior().iiop().unwrap().clone();
        let stream = TcpStream::connect((address.host.as_str(), address.port)).unwrap();
        patient(&stream);
        stream
    }

    fn send(&self, request: &NodeRequest) -> NodeAnswer {
        request.send(&self.folder.join("node.sock")).unwrap()
    }

    fn status(&self) -> NodeStatus {
        let NodeAnswer::Status(status) = self.send(&NodeRequest::Status { name: None }) else { panic!("no status") };
        status
    }

    /// The plans that are up, each with the states of its servers.
    fn up(&self) -> Vec<(String, Vec<String>)> {
        let states = |plan: &crate::PlanStatus| plan.servers.iter().map(|server| server.state.clone()).collect();
        self.status().plans.iter().map(|plan| (plan.name.clone(), states(plan))).collect()
    }

    fn object(&self, ior: Ior) -> ObjectRef {
        self.orb.object(ior)
    }

    fn prepare(&self, plan: &DeploymentPlan) -> Result<ObjectRef, String> {
        let arguments = (plan, Ior::nil());
        call::<Ior>(&self.manager(), "preparePlan", &arguments).map(|ior| self.object(ior))
    }

    fn launch(&self, manager: &ObjectRef) -> Result<ObjectRef, String> {
        let launched = call::<(Ior, Vec<Connection>)>(manager, "startLaunch", &(Vec::<Property>::new(),));
        launched.map(|(ior, provided)| {
            assert_eq!(provided, []);
            self.object(ior)
        })
    }
}

/// Calls an operation: of an exception its short name, and its name and reason.
fn call<T: Unmarshal>(object: &ObjectRef, operation: &str, arguments: &impl Marshal) -> Result<T, String> {
    object.request(operation, arguments).map_err(|error| match &error {
        InvokeError::User(user) => {
            let mut members = user.members().unwrap();
            let name = user.id.strip_prefix("IDL:Deployment/").unwrap().strip_suffix(":1.0").unwrap();
            format!("{name} {}: {}", members.text().unwrap(), members.text().unwrap())
        }
        _ => error.to_string(),
    })
}

fn finish(application: &ObjectRef, start: bool) -> Result<(), String> {
    call(application, "finishLaunch", &(Vec::<Connection>::new(), start))
}

fn destroy_application(manager: &ObjectRef, application: &ObjectRef) -> Result<(), String> {
    call(manager, "destroyApplication", &(application,))
}

fn instance(name: &str, implementation_ref: u32) -> InstanceDeploymentDescription {
    InstanceDeploymentDescription {
        name: name.to_owned(),
        node: "dome".to_owned(),
        source: Vec::new(),
        implementation_ref,
        config_property: vec![Property { name: "does".to_owned(), value: "run".into() }],
        deployed_resource: Vec::new(),
        deployed_shared_resource: Vec::new(),
    }
}

/// A plan of one instance.
fn plan(uuid: &str) -> DeploymentPlan {
    DeploymentPlan {
        label: uuid.to_owned(),
        uuid: uuid.to_owned(),
        implementation: vec![MonolithicDeploymentDescription {
            name: "Thing".to_owned(),
            source: vec!["a package".to_owned(), "another".to_owned()],
            artifact_ref: vec![0],
            exec_parameter: vec![Property { name: "component factory".to_owned(), value: "make".into() }],
            deploy_requirement: Vec::new(),
        }],
        instance: vec![instance("it", 0)],
        artifact: vec![ArtifactDeploymentDescription {
            name: "things".to_owned(),
            location: vec!["libthing.so".to_owned()],
            node: String::new(),
            source: Vec::new(),
            exec_parameter: Vec::new(),
            deploy_requirement: Vec::new(),
            deployed_resource: Vec::new(),
        }],
        ..DeploymentPlan::default()
    }
}

#[test]
fn a_plan_is_launched_started_and_removed_in_the_order_of_launchers() {
    let stand = Stand::new();
    let plan = plan("guiding 7");
    let manager = stand.prepare(&plan).unwrap();
    assert_eq!(manager.type_id(), "IDL:Deployment/DomainApplicationManager:1.0");
    assert!(call::<bool>(&manager, "_is_a", &("IDL:Deployment/ApplicationManager:1.0",)).unwrap());
    assert_eq!(stand.prepare(&plan).unwrap().ior(), manager.ior());
    assert_eq!(call::<Vec<Ior>>(&stand.manager(), "getManagers", &()).unwrap(), [manager.ior().clone()]);
    assert_eq!(call::<DeploymentPlan>(&manager, "getPlan", &()).unwrap(), plan);
    assert_eq!((call::<Vec<Ior>>(&manager, "getApplications", &()).unwrap(), stand.up()), (vec![], vec![]));

    let application = stand.launch(&manager).unwrap();
    assert_eq!(call::<Vec<Ior>>(&manager, "getApplications", &()).unwrap(), [application.ior().clone()]);
    finish(&application, false).unwrap();
    assert_eq!(stand.up(), []);
    call::<()>(&application, "start", &()).unwrap();
    let started = ("guiding_7".to_owned(), vec!["started".to_owned()]);
    assert_eq!(stand.up(), std::slice::from_ref(&started));

    destroy_application(&manager, &application).unwrap();
    assert_eq!(stand.up(), []);
    assert!(finish(&application, true).unwrap_err().contains("OBJECT_NOT_EXIST"));
    // In one step, and again.
    let application = stand.launch(&manager).unwrap();
    finish(&application, true).unwrap();
    assert_eq!(stand.up(), [started]);
    destroy_application(&manager, &application).unwrap();
    call::<()>(&stand.manager(), "destroyManager", &(&manager,)).unwrap();
    assert_eq!((call::<Vec<Ior>>(&stand.manager(), "getManagers", &()).unwrap(), stand.up()), (vec![], vec![]));
    assert!(stand.launch(&manager).unwrap_err().contains("OBJECT_NOT_EXIST"));
}

#[test]
fn operations_in_another_order_are_refused_and_change_nothing() {
    let stand = Stand::new();
    let manager = stand.prepare(&plan("guiding")).unwrap();
    let property = Property { name: "gain".to_owned(), value: 0.5_f64.into() };
    let refused = call::<(Ior, Vec<Connection>)>(&manager, "startLaunch", &(vec![property],)).unwrap_err();
    assert!(refused.starts_with("InvalidProperty gain: a plan has no properties of its own"), "{refused}");
    let application = stand.launch(&manager).unwrap();
    let refused = stand.launch(&manager).unwrap_err();
    assert_eq!(refused, "StartError guiding: it is launched already; its launch is not finished: call finishLaunch");
    let start = || call::<()>(&application, "start", &());
    assert_eq!(start().unwrap_err(), "StartError guiding: its launch is not finished: call finishLaunch");
    let connection = Connection { name: "frames".to_owned(), endpoint: vec![manager.ior().clone()] };
    let refused = call::<()>(&application, "finishLaunch", &(vec![connection], true)).unwrap_err();
    assert!(refused.starts_with("InvalidConnection frames: a plan has no ports of its own"), "{refused}");
    finish(&application, false).unwrap();
    let refused = finish(&application, true).unwrap_err();
    assert_eq!(refused, "StartError guiding: its launch is finished already: call start");
    start().unwrap();
    assert_eq!(start().unwrap_err(), "StartError guiding: it is started already");
    for other in [Ior::nil(), manager.ior().clone()] {
        let refused = call::<()>(&manager, "destroyApplication", &(other,)).unwrap_err();
        assert!(refused.starts_with("StopError app: the manager has no such application"), "{refused}");
    }
    let destroy = |manager: &Ior| call::<()>(&stand.manager(), "destroyManager", &(manager,)).unwrap_err();
    assert_eq!(destroy(manager.ior()), "StopError guiding: its plan is launched: call destroyApplication first");
    assert!(destroy(application.ior()).starts_with("StopError manager: there is no such manager"));
    assert_eq!(stand.up(), [("guiding".to_owned(), vec!["started".to_owned()])]);

    // A name is one plan.
    let mut other = plan("guiding");
    other.instance[0].config_property[0].value = "walk".into();
    let refused = stand.prepare(&other).unwrap_err();
    assert!(refused.starts_with("PlanError guiding: a plan of this name is prepared, and differs"), "{refused}");
    let node = stand.orb.resolve(&stand.address().replace("ExecutionManager", "dome.NodeManager")).unwrap();
    let refused = call::<Ior>(&node, "preparePlan", &(&plan("guiding"), Ior::nil())).unwrap_err();
    assert!(refused.contains("by the other of ExecutionManager and NodeManager"), "{refused}");
    let of_node = call::<Ior>(&node, "preparePlan", &(&plan("other"), Ior::nil())).unwrap();
    assert_eq!(of_node.type_id, "IDL:Deployment/NodeApplicationManager:1.0");
    assert!(call::<()>(&node, "leaveDomain", &()).unwrap_err().contains("NO_IMPLEMENT"));
    assert!(call::<()>(&node, "shutdown", &()).unwrap_err().contains("BAD_OPERATION"));

    // A server that fails to start: the launch is as far as before.
    let failing = stand.object(of_node);
    std::fs::write(stand.folder.join("opt/break"), "").unwrap();
    let application = stand.launch(&failing).unwrap();
    let refused = finish(&application, true).unwrap_err();
    assert!(
        refused.starts_with("StartError servers.dome: it ended with exit status: 4 before it was started"),
        "{refused}"
    );
    std::fs::remove_file(stand.folder.join("opt/break")).unwrap();
    finish(&application, true).unwrap();
    assert_eq!(stand.up().len(), 2);
}

#[test]
fn a_plan_goes_on_with_the_next_node_manager_and_is_found_by_preparing_it_again() {
    let mut stand = Stand::new();
    let plan = plan("guiding");
    let manager = stand.prepare(&plan).unwrap();
    finish(&stand.launch(&manager).unwrap(), true).unwrap();
    let file = stand.folder.join("ExecutionManager.ior");
    stand.node = None;
    assert!(!file.exists());
    stand.start();
    wait_until("the plan", || stand.up() == [("guiding".to_owned(), vec!["started".to_owned()])]);
    assert_eq!(call::<Vec<Ior>>(&stand.manager(), "getManagers", &()).unwrap(), []);
    let mut other = plan.clone();
    other.instance[0].config_property[0].value = "walk".into();
    let refused = stand.prepare(&other).unwrap_err();
    assert!(
        refused.starts_with("PlanError guiding: a plan of this name is up, and differs, as in instances.it.does: "),
        "{refused}"
    );
    let manager = stand.prepare(&plan).unwrap();
    let [application]: [Ior; 1] = call::<Vec<Ior>>(&manager, "getApplications", &()).unwrap().try_into().unwrap();
    assert!(stand.launch(&manager).unwrap_err().ends_with("it is started already"));
    destroy_application(&manager, &stand.object(application)).unwrap();
    assert_eq!(stand.up(), []);
    // Taken down by other means, its application is still there to be ended.
    let application = stand.launch(&manager).unwrap();
    finish(&application, true).unwrap();
    assert!(matches!(
        stand.send(&NodeRequest::Down { name: "guiding".to_owned(), without: Vec::new() }),
        NodeAnswer::Changed(_)
    ));
    destroy_application(&manager, &application).unwrap();
}

/// What is refused of a plan with one change.
fn refusal(change: impl FnOnce(&mut DeploymentPlan)) -> String {
    let mut plan = plan("guiding");
    change(&mut plan);
    let problems = import_struct(&plan).unwrap_err();
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_a_plan_cannot_say_is_refused_by_its_element() {
    assert_eq!(
        refusal(|plan| plan.instance[0].implementation_ref = 7),
        "instance[0] \"it\": implementationRef: there is no implementation with the id \"implementation[7]\": is the plan whole?"
    );
    assert_eq!(
        refusal(|plan| plan.artifact[0].location.clear()),
        "implementation[0] \"Thing\": implementation: its artifact's location is \"\": give the path of a shared object"
    );
    let end = |kind, instance_ref| PlanSubcomponentPortEndpoint {
        port_name: "p".to_owned(),
        provider: true,
        kind,
        instance_ref,
    };
    let connection = |one, other| PlanConnectionDescription {
        name: "c".to_owned(),
        source: Vec::new(),
        deploy_requirement: Vec::new(),
        external_endpoint: Vec::new(),
        internal_endpoint: vec![one, other],
        external_reference: Vec::new(),
        deployed_resource: Vec::new(),
    };
    let refused = refusal(|plan| plan.connection.push(connection(end(0, 0), end(9, 0))));
    assert!(
        refused.starts_with("connection[0] \"c\": internalEndpoint: its kind is \"Facet\", and a plan"),
        "{refused}"
    );
    let refused = refusal(|plan| plan.connection.push(connection(end(9, 0), end(5, 0))));
    assert!(refused.contains("its kind is \"9\""), "{refused}");
    let refused = refusal(|plan| plan.connection.push(connection(end(4, 0), end(5, u32::MAX))));
    assert!(refused.contains("there is no instance with the id \"instance[4294967295]\""), "{refused}");
    let refused = refusal(|plan| {
        plan.locality_constraint.push(PlanLocality { constraint: 3, constrained_instance_ref: vec![0] });
    });
    assert!(refused.starts_with("localityConstraint[0]: localityConstraint: \"3\" is not understood"), "{refused}");
    let refused = refusal(|plan| {
        plan.instance[0].config_property[0].value = AnyValue::default();
    });
    assert_eq!(
        refused,
        "instance[0] \"it\": configProperty: property does: null is not taken: give numbers, strings, enums, structs, sequences or \
         arrays of these"
    );
    let refused = refusal(|plan| {
        plan.info_property.push(Property { name: "CIAOEvents".to_owned(), value: "a.ced".into() });
    });
    assert!(refused.contains("give it to campanile deploy import as --events a.ced"), "{refused}");
}

#[test]
fn a_struct_and_a_file_become_the_same_plan() {
    let text = "<DeploymentPlan xmlns:xmi='x'><label>guiding</label><UUID>guiding</UUID>
        <implementation xmi:id='i'><name>Thing</name><artifact xmi:idref='a'/></implementation>
        <instance xmi:id='one'><name>it</name><node>dome</node><implementation xmi:idref='i'/><configProperty><name>does</name>
        <value><type><kind>tk_string</kind></type><value><string>run</string></value></value></configProperty></instance>
        <instance xmi:id='two'><name>it</name><node>dome</node><implementation xmi:idref='i'/><configProperty><name>does</name>
        <value><type><kind>tk_string</kind></type><value><string>run</string></value></value></configProperty></instance>
        <connection><name>c</name>
        <internalEndpoint><portName>p</portName><kind>EventPublisher</kind><instance xmi:idref='one'/></internalEndpoint>
        <internalEndpoint><portName>q</portName><kind>EventConsumer</kind><instance xmi:idref='two'/></internalEndpoint></connection>
        <artifact xmi:id='a'><name>things</name><location>libthing.so</location></artifact>
        <localityConstraint><constraint>DifferentProcess</constraint><constrainedInstance xmi:idref='one'/>
        <constrainedInstance xmi:idref='two'/></localityConstraint></DeploymentPlan>";
    let of_file = import_plan(&Descriptor::new("plan.cdp", text), None).unwrap().text;
    let mut plan = plan("guiding");
    plan.instance.push(instance("it", 0));
    let end = |port: &str, kind, instance_ref| PlanSubcomponentPortEndpoint {
        port_name: port.to_owned(),
        provider: false,
        kind,
        instance_ref,
    };
    plan.connection.push(PlanConnectionDescription {
        name: "c".to_owned(),
        source: Vec::new(),
        deploy_requirement: Vec::new(),
        external_endpoint: Vec::new(),
        internal_endpoint: vec![end("p", 4, 0), end("q", 5, 1)],
        external_reference: Vec::new(),
        deployed_resource: Vec::new(),
    });
    plan.locality_constraint.push(PlanLocality { constraint: 1, constrained_instance_ref: vec![0, 1] });
    let of_struct = import_struct(&plan).unwrap().text;
    let said = |text: &str| text.lines().filter(|line| !line.starts_with("# ")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(said(&of_struct), said(&of_file));
    assert!(of_struct.contains("\"it.p\" = [\"it-2.q\"]"), "{of_struct}");
}

#[test]
fn the_oldest_plan_that_is_not_launched_makes_room_for_another() {
    let stand = Stand::new();
    let launched = stand.prepare(&plan("launched")).unwrap();
    let application = stand.launch(&launched).unwrap();
    let first = stand.prepare(&plan("plan-0")).unwrap();
    for number in 1..MANAGERS_MAX {
        stand.prepare(&plan(&format!("plan-{number}"))).unwrap();
    }
    let all = || call::<Vec<Ior>>(&stand.manager(), "getManagers", &()).unwrap();
    assert_eq!((all().len(), &all()[0]), (MANAGERS_MAX, launched.ior()));
    assert!(stand.launch(&first).unwrap_err().contains("OBJECT_NOT_EXIST"));
    finish(&application, true).unwrap();
    // If all are launched, there is none.
    for manager in all().into_iter().skip(1) {
        stand.launch(&stand.object(manager)).unwrap();
    }
    let refused = stand.prepare(&plan("plan-0")).unwrap_err();
    assert!(refused.starts_with("StartError plan-0: there are 64 managers of launched plans"), "{refused}");
    destroy_application(&launched, &application).unwrap();
    stand.prepare(&plan("plan-0")).unwrap();
}

#[test]
fn hostile_octets_end_their_own_connection_and_are_counted() {
    let stand = Stand::new();
    let mut octets = Vec::new();
    stand.connect().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // A message of more than the limit, and half of one.
    let mut large = stand.connect();
    let size = u32::try_from(MESSAGE_BYTES_MAX + 1).unwrap();
    large.write_all(&[b"GIOP\x01\x02\x00\x00", &size.to_be_bytes()[..]].concat()).unwrap();
    large.read_to_end(&mut octets).unwrap();
    assert!(octets.starts_with(b"GIOP"));
    stand.connect().write_all(b"GIOP\x01\x02\x00\x00\x00\x00\x00\x20half").unwrap();
    wait_until("all to be counted", || stand.status().clients_dropped == 3);

    // Arguments that are none: a sequence of more elements than there are octets, and nothing.
    for arguments in [&[u32::MAX; 2][..], &[]] {
        let refused =
            stand.manager().invoke("preparePlan", |w| arguments.iter().for_each(|it| w.u32(*it))).unwrap_err();
        assert!(refused.is("MARSHAL"), "{refused}");
    }
    // Values without octets: 16 million would be gigabytes.
    let mut many = plan("many");
    let nulls = AnyValue::new(
        TypeCode::array(TypeCode::default(), 1 << 18),
        Value::Array(vec![AnyValue::default().value; 1 << 18]),
    );
    many.info_property.push(Property { name: "nulls".to_owned(), value: nulls });
    assert!(stand.prepare(&many).unwrap_err().contains("MARSHAL"));
    // Connections beyond the most are closed; those that are there go on.
    let manager = stand.prepare(&plan("guiding")).unwrap();
    let all: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| stand.connect()).collect();
    wait_until("one to be refused", || stand.status().clients_refused > 0);
    stand.launch(&manager).unwrap();
    drop(all);
}

#[test]
fn over_tls_only_certificates_that_the_settings_name_may_deploy() {
    let authority = Authority::new("deploy");
    let options = |name: &str| {
        let Certified { certificate, key, .. } = authority.certify(name);
        let tls = Some(OrbTls::trusting(authority.file()).with_identity(certificate, key));
        OrbOptions { tls, ..OrbOptions::default() }
    };
    let Certified { certificate, key, .. } = authority.certify("node");
    let show = |path: PathBuf| path.display().to_string();
    let tls = format!(
        "[tls]\ncertificate = '{}'\nkey = '{}'\nca = '{}'\ndeploy = ['CN=launch*,O=Tests']",
        show(certificate),
        show(key),
        show(authority.file())
    );
    let mut stand = Stand::with(&tls, options("stranger"));
    assert!(stand.address().starts_with("corbaloc:ssliop:1.2@127.0.0.1:"), "{}", stand.address());
    let refused = stand.prepare(&plan("guiding")).unwrap_err();
    assert!(refused.contains("NO_PERMISSION"), "{refused}");
    wait_until("the request to be counted", || stand.status().clients_refused == 1);
    stand.orb = Orb::new(options("launcher"));
    let manager = stand.prepare(&plan("guiding")).unwrap();
    finish(&stand.launch(&manager).unwrap(), true).unwrap();
    assert_eq!(stand.up().len(), 1);
}
