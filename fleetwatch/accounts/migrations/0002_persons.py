"""People: roles, teams, names in other systems and rules of them, invitations, how each left; the
audit log.
"""

import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

from fleetwatch.lib.sql import read_statement


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_schema'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='role',
            field=models.CharField(blank=True, default='', help_text='what it may; empty: what its user may', max_length=16),
        ),
        migrations.AddField(
            model_name='organisation',
            name='needs_second_factor',
            field=models.BooleanField(default=False, help_text='whether everybody logs in with a second factor'),
        ),
        migrations.AddField(
            model_name='organisation',
            name='others_shown',
            field=models.CharField(choices=[('everything', 'Everything'), ('teams', 'only what is of their teams'), ('pseudonyms', "everything, but others' names")], default='everything', max_length=16),
        ),
        migrations.AlterField(
            model_name='user',
            name='role',
            field=models.CharField(choices=[('engineer', 'Engineer'), ('lead', 'Lead'), ('finance', 'Finance'), ('operator', 'Operator'), ('admin', 'Admin')], default='engineer', max_length=16),
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('email', models.EmailField(blank=True, default='', max_length=254)),
                ('role', models.CharField(choices=[('engineer', 'Engineer'), ('lead', 'Lead'), ('finance', 'Finance'), ('operator', 'Operator'), ('admin', 'Admin')], max_length=16)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(null=True)),
                ('accepted_by', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='invitation', to=settings.AUTH_USER_MODEL)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='accounts.team')),
            ],
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('name', models.CharField(max_length=200)),
                ('via', models.CharField(max_length=16)),
                ('address', models.CharField(blank=True, default='', max_length=45)),
                ('action', models.CharField(max_length=64)),
                ('subject', models.CharField(blank=True, default='', max_length=500)),
                ('detail', models.JSONField(default=dict)),
                ('user', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(models.F('at'), models.F('id'), name='audit_by_time')],
            },
        ),
        migrations.CreateModel(
            name='Identity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('system', models.CharField(choices=[('unix', 'Unix or Slurm user'), ('kubernetes', 'Kubernetes namespace or annotation'), ('email', 'e-mail address'), ('slack', 'Slack member'), ('oidc', "identity provider's subject"), ('directory', "directory's entry")], max_length=16)),
                ('cluster', models.CharField(blank=True, default='', help_text='of Unix users; empty: on every cluster', max_length=128)),
                ('name', models.CharField(max_length=255)),
                ('source', models.CharField(choices=[('admin', 'set by an admin'), ('csv', 'from a CSV file'), ('directory', 'from the directory'), ('provider', 'from the identity provider'), ('rule', 'by a rule'), ('claim', 'claimed by the person')], max_length=16)),
                ('created_at', models.DateTimeField()),
                ('confirmed_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='identities', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('confirmed_at__isnull', False)), fields=('system', 'cluster', 'name'), name='a_name_is_one_persons'), models.UniqueConstraint(fields=('user', 'system', 'cluster', 'name'), name='a_name_is_claimed_once')],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('valid_from', models.DateTimeField()),
                ('valid_until', models.DateTimeField(null=True)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='accounts.team')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('valid_until', None)), fields=('user', 'team'), name='a_person_is_in_a_team_once'), models.CheckConstraint(condition=models.Q(('valid_until', None), ('valid_until__gt', models.F('valid_from')), _connector='OR'), name='a_membership_lasts')],
            },
        ),
        migrations.CreateModel(
            name='NameRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('takes', models.CharField(choices=[('username', 'the user name here'), ('email', 'the e-mail address before the @')], max_length=16)),
                ('domain', models.CharField(blank=True, default='', help_text='of addresses, in small letters', max_length=253)),
                ('cluster', models.CharField(blank=True, default='', max_length=128)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('takes', 'domain', 'cluster'), name='a_name_rule_is_set_once')],
            },
        ),
        migrations.AddField(
            model_name='user',
            name='chose_name',
            field=models.BooleanField(default=False, help_text='whether the user name says nothing of who that is elsewhere'),
        ),
        migrations.AddField(
            model_name='user',
            name='left_directory_at',
            field=models.DateTimeField(blank=True, help_text='the directory has no entry any more, and that ended the account', null=True),
        ),
        migrations.AddField(
            model_name='user',
            name='signed_out_at',
            field=models.DateTimeField(blank=True, help_text='sessions of before are over', null=True),
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.UniqueConstraint(django.db.models.functions.text.Upper('username'), name='a_user_name_is_one_in_any_case'),
        ),
        # whoever could only read is an engineer now
        migrations.RunSQL(
            "UPDATE accounts_user SET role = 'engineer' WHERE role = 'viewer'",
            "UPDATE accounts_user SET role = 'viewer' WHERE role <> 'admin'",
        ),
        migrations.RunSQL(
            read_statement("accounts/sql/audit_is_appended_to.sql"),
            "DROP FUNCTION audit_is_appended_to CASCADE",
        ),
    ]
