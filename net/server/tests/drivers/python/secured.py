"""The Python driver and cqlsh over TLS with a login.

    secured.py CQLSH HOST PORT AUTHORITY DIRECTORY [CERTIFICATE]

AUTHORITY is PEM with the certificate that has signed the node's, CERTIFICATE PEM with a certificate of the client and its key, for a
node that wants one. The node has the role cassandra with that password. DIRECTORY is for files of cqlsh.
"""

import ssl
import subprocess
import sys

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable
from cassandra.policies import WhiteListRoundRobinPolicy

CQLSH, HOST, PORT, AUTHORITY, DIRECTORY, *CERTIFICATE = sys.argv[1:]


def context(shows=True, trusts=AUTHORITY):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.load_verify_locations(trusts)
    if shows and CERTIFICATE:
        made.load_cert_chain(CERTIFICATE[0])
    return made


def connected(version, user="cassandra", password="cassandra", encrypted=None, plain=False):
    """What a connection of its own gives for a simple query, or the text of its failure."""
    cluster = Cluster(
        [HOST], port=int(PORT), protocol_version=version, auth_provider=PlainTextAuthProvider(user, password) if user else None,
        ssl_context=None if plain else encrypted or context(), connect_timeout=10,
        load_balancing_policy=WhiteListRoundRobinPolicy([HOST]),
    )
    try:
        return cluster.connect()
    except NoHostAvailable as failure:
        return str(failure.errors)
    finally:
        connected.clusters.append(cluster)


connected.clusters = []


def main():
    for version in (4, 5):
        session = connected(version)
        if isinstance(session, str):
            sys.exit(f"v{version}: {session}")
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS secured WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE IF NOT EXISTS secured.t (a int PRIMARY KEY, b text)")
        large = "x" * 200_000
        insert = session.prepare("INSERT INTO secured.t (a, b) VALUES (?, ?)")
        for future in [session.execute_async(insert, (key, large)) for key in range(20)]:
            future.result()
        rows = list(session.execute("SELECT a, b FROM secured.t"))
        assert len(rows) == 20 and all(row.b == large for row in rows), len(rows)
        clients = session.execute("SELECT username, ssl_enabled, ssl_protocol FROM system_views.clients").all()
        assert clients and all(row.username == "cassandra" and row.ssl_enabled and row.ssl_protocol == "TLSv1.3" for row in clients), clients

    def refused(expected, **given):
        outcome = connected(5, **given)
        assert isinstance(outcome, str), "let in"
        assert not expected or expected in outcome, outcome

    refused("Provided username cassandra and/or password are incorrect", password="wrong")
    refused("Provided username nobody and/or password are incorrect", user="nobody")
    refused("requires authentication", user=None)
    refused("", plain=True)
    if CERTIFICATE:
        refused("", encrypted=context(shows=False))

    with open(f"{DIRECTORY}/cqlshrc", "w") as file:
        file.write(f"[connection]\nhostname = {HOST}\nport = {PORT}\nssl = true\n[ssl]\ncertfile = {AUTHORITY}\nvalidate = true\n")
        if CERTIFICATE:
            file.write(f"userkey = {CERTIFICATE[0]}\nusercert = {CERTIFICATE[0]}\n")
    with open(f"{DIRECTORY}/credentials", "w") as file:
        file.write("[PlainTextAuthProvider]\nusername = cassandra\npassword = cassandra\n")
    subprocess.run(["chmod", "600", f"{DIRECTORY}/credentials"], check=True)

    def cqlsh(text, *options):
        command = [CQLSH, "--cqlshrc", f"{DIRECTORY}/cqlshrc", "--credentials", f"{DIRECTORY}/credentials", *options, "-e", text]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    code, said = cqlsh("CREATE ROLE app WITH PASSWORD = 'secret' AND LOGIN = true; GRANT SELECT ON secured.t TO app; LIST ROLES")
    assert code == 0 and "app" in said and "rror" not in said, said
    code, said = cqlsh(f"COPY secured.t (a) TO '{DIRECTORY}/out.csv'")
    assert "20 rows exported" in said, said
    with open(f"{DIRECTORY}/credentials", "w") as file:
        file.write("[PlainTextAuthProvider]\nusername = app\npassword = secret\n")
    code, said = cqlsh("SELECT count(*) FROM secured.t")
    assert code == 0 and "20" in said, said
    code, said = cqlsh("DROP TABLE secured.t")
    assert code != 0 and "User app has no DROP permission" in said, said
    with open(f"{DIRECTORY}/credentials", "w") as file:
        file.write("[PlainTextAuthProvider]\nusername = app\npassword = wrong\n")
    code, said = cqlsh("SELECT count(*) FROM secured.t")
    assert code != 0 and "Provided username app and/or password are incorrect" in said, said
    for cluster in connected.clusters:
        cluster.shutdown()
    print("TLS and logins work" + (", with certificates of clients" if CERTIFICATE else ""))


if __name__ == "__main__":
    main()
