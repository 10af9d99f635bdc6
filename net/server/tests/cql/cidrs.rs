//! Groups of addresses: operators' commands about them, and roles that may log in from some of them alone.

use crate::node::with_configured_nodes;
use crate::play::{login, run};
use runtime::NodeId;
use runtime::sim::Sim;
use server::admin::{self, protocol::Request};
use server::client::{CallError, Client, QueryOptions};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a change may take to be known everywhere.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);

fn options(mode: &str) -> Vec<String> {
    let cidrs = format!(
        "cidr_authorizer={{class_name: CassandraCIDRAuthorizer, parameters: {{cidr_authorizer_mode: {mode}}}}}"
    );
    vec!["authenticator=PasswordAuthenticator".into(), "authorizer=CassandraAuthorizer".into(), cidrs]
}

/// What a command of an operator prints, or its error.
async fn tool(node: SocketAddr, command: &str, arguments: &[&str]) -> String {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let request = Request { command: command.into(), options: Vec::new(), arguments };
    let answer = admin::ask(node.ip(), &request).await.expect("it is answered");
    if answer.exit == 0 { answer.out } else { format!("{} {}{}", answer.exit, answer.out, answer.err) }
}

async fn told(client: &mut Client, text: &str) -> String {
    match client.query(text, &QueryOptions::default()).await {
        Ok(_) => "done".into(),
        Err(CallError::Failure { text, .. }) => text,
        Err(CallError::Broken(error)) => panic!("{text}: {error}"),
    }
}

/// The client's own address, and the refusal of a role that is not kept to it.
fn own() -> (String, String) {
    let address = Sim::address_of(NodeId(0)).to_string();
    let refusal = format!("You do not have access from this IP {address}");
    (address, refusal)
}

#[test]
fn operators_name_groups_of_addresses() {
    with_configured_nodes(&options("ENFORCE"), &[2], |address| async move {
        let ask = |command: &'static str, arguments: &'static [&'static str]| tool(address, command, arguments);
        assert_eq!(ask("listcidrgroups", &[]).await, "");
        assert_eq!(ask("updatecidrgroup", &["g1", "10.1.2.3/16", "2001:db8::/32"]).await, "");
        assert_eq!(ask("updatecidrgroup", &["g2", "10.0.0.0/8"]).await, "");
        assert_eq!(ask("listcidrgroups", &[]).await, "CIDR Groups: \ng1           \ng2           \n");
        let ranges = "CIDRs:                 \n10.1.0.0/16            \n2001:db8:0:0:0:0:0:0/32\n";
        assert_eq!(ask("listcidrgroups", &["g1"]).await, ranges);
        assert_eq!(ask("listcidrgroups", &["nope"]).await, "");
        assert_eq!(ask("getcidrgroupsofip", &["10.1.0.1"]).await, "CIDR Groups: \ng1           \n");
        assert_eq!(ask("getcidrgroupsofip", &["10.2.0.1"]).await, "CIDR Groups: \ng2           \n");
        assert_eq!(ask("getcidrgroupsofip", &["11.0.0.1"]).await, "");
        for (command, arguments, expected) in [
            ("updatecidrgroup", &["g3", "1.2.3.4"][..], "1.2.3.4 is not a valid CIDR String"),
            ("updatecidrgroup", &["g3", "1.2.3.4/33"], "1.2.3.4/33 is not a valid CIDR String"),
            ("updatecidrgroup", &["g3"], "updatecidrgroup command requires a cidr group name and atleast one CIDR"),
            ("getcidrgroupsofip", &["nope"], "Invalid IP nope"),
            ("dropcidrgroup", &["nope"], "CIDR group 'nope' doesn't exists"),
        ] {
            let answer = tool(address, command, arguments).await;
            assert!(answer.contains(expected), "{command}: {answer}");
        }
        assert_eq!(ask("dropcidrgroup", &["g1"]).await, "Deleted CIDR group g1\n");
        assert_eq!(ask("getcidrgroupsofip", &["10.1.0.1"]).await, "CIDR Groups: \ng2           \n");
        assert_eq!(ask("reloadcidrgroupscache", &[]).await, "Reloaded CIDR groups cache\n");
    });
}

#[test]
fn roles_log_in_from_their_groups_alone() {
    with_configured_nodes(&options("ENFORCE"), &[2], |address| async move {
        let (own, refusal) = own();
        tool(address, "updatecidrgroup", &["home", &format!("{own}/32")]).await;
        tool(address, "updatecidrgroup", &["far", "198.51.100.0/24"]).await;
        let mut root = login(address, "cassandra cassandra").await.expect("the default superuser");
        let role = |name: &str, access: &str| {
            format!("CREATE ROLE {name} WITH PASSWORD = 'p' AND LOGIN = true AND ACCESS FROM {access}")
        };
        let unknown = told(&mut root, &role("x", "CIDRS {'nope', 'home'}")).await;
        assert_eq!(unknown, "Invalid CIDR group(s): [nope, home]. Available CIDR Groups are: [far, home]");
        run(&mut root, &role("h", "CIDRS {'home', 'far'}")).await;
        run(&mut root, &role("f", "CIDRS {'far'}")).await;
        run(&mut root, &role("a", "ALL CIDRS")).await;
        let refused = |login: Result<Client, CallError>| match login {
            Err(CallError::Failure { code: 0x2100, text, .. }) => text,
            other => panic!("{:?}", other.map(|_| "logged in")),
        };
        assert_eq!(refused(login(address, "f p").await), refusal);
        login(address, "a p").await.expect("from everywhere");
        let mut home = login(address, "h p").await.expect("from home");
        const READ: &str = "SELECT key FROM system.local";
        assert_eq!(told(&mut home, READ).await, "done");
        // Changes count on open connections.
        run(&mut root, "ALTER ROLE h WITH ACCESS FROM CIDRS {'far'}").await;
        runtime::sleep(KNOWN_WITHIN).await;
        assert_eq!(told(&mut home, READ).await, refusal);
        tool(address, "updatecidrgroup", &["far", "0.0.0.0/0"]).await;
        runtime::sleep(KNOWN_WITHIN).await;
        assert_eq!(told(&mut home, READ).await, refusal, "the narrower group counts");
        tool(address, "dropcidrgroup", &["home"]).await;
        runtime::sleep(KNOWN_WITHIN).await;
        assert_eq!(told(&mut home, READ).await, "done");
        let counts = tool(address, "cidrfilteringstats", &[]).await;
        for line in [
            "Number of CIDR accesses accepted from CIDR group - home 1",
            "Number of CIDR accesses rejected from CIDR group - home 1",
        ] {
            assert!(counts.contains(line), "{counts}");
        }
        // Superusers are exempt unless the operator says otherwise.
        run(&mut root, "CREATE ROLE s WITH PASSWORD = 'p' AND LOGIN = true AND SUPERUSER = true").await;
        run(&mut root, "ALTER ROLE s WITH ACCESS FROM CIDRS {'far'}").await;
        tool(address, "updatecidrgroup", &["far", "198.51.100.0/24"]).await;
        login(address, "s p").await.expect("a superuser");
        run(&mut root, "DROP ROLE h").await;
        let left = "SELECT role FROM system_auth.cidr_permissions WHERE role = 'h'";
        let left = root.query(left, &QueryOptions::default()).await.expect("rows");
        assert_eq!(left.rows.len(), 0);
    });
}

#[test]
fn addresses_that_are_monitored_are_let_in() {
    with_configured_nodes(&options("MONITOR"), &[1], |address| async move {
        tool(address, "updatecidrgroup", &["far", "198.51.100.0/24"]).await;
        let mut root = login(address, "cassandra cassandra").await.expect("the default superuser");
        let text = "CREATE ROLE f WITH PASSWORD = 'p' AND LOGIN = true AND ACCESS FROM CIDRS {'far'}";
        run(&mut root, text).await;
        login(address, "f p").await.expect("monitored alone");
        let counts = tool(address, "cidrfilteringstats", &[]).await;
        assert!(counts.contains("Number of CIDR accesses accepted from CIDR group - Undefined 1"), "{counts}");
    });
}
